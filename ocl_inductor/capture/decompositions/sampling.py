"""Images sampled at computed places (``grid_sampler_2d``) by simpler operators.

Positions and weights follow ATen's ``GridSampler.h``. A tap outside the image reads nothing; in
PyTorch's own decomposition it reads the first pixel with weight 0, which gives NaN if that pixel is
infinite.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ocl_inductor.operators.sampling import CUBIC, NEAREST, REFLECTION, ZEROS

#: The cubic convolution's parameter, as ATen has it.
_A = -0.75


def decompose_grid_sampler_2d(
    x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> object:
    """``x`` [n, c, height, width] at ``grid`` [n, h, w, 2], whose last axis is x, y.

    The result is contiguous, regardless of ``x`` and ``grid``.
    """
    how = interpolation_mode, padding_mode, align_corners
    if x.dtype in (torch.float16, torch.bfloat16):
        return _sampled(x.float(), grid.float(), *how).to(x.dtype).contiguous()
    return _sampled(x, grid, *how).contiguous()


def _sampled(
    x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    height, width = x.shape[2:]
    across, down = grid.unbind(-1)

    def padded(pixel: Tensor, extent: int) -> Tensor:
        if padding_mode == ZEROS:
            return pixel
        if padding_mode == REFLECTION:
            pixel = _reflected(pixel, extent, align_corners)
        return pixel.clamp(0, extent - 1)

    n = torch.arange(x.shape[0], dtype=torch.int32, device=x.device).view(-1, 1, 1, 1)
    c = torch.arange(x.shape[1], dtype=torch.int32, device=x.device).view(1, -1, 1, 1)

    def tap(column: Tensor, row: Tensor, weight: Tensor | None = None) -> Tensor:
        """The pixel at an integer position, times ``weight``; 0 outside."""
        inside = (column >= 0) & (column <= width - 1) & (row >= 0) & (row <= height - 1)
        # 32 bits, like a float: vectors of wider positions would have half the lanes.
        at = [torch.where(inside, i, 0).to(torch.int32).unsqueeze(1) for i in (row, column)]
        pixel = torch.ops.aten._unsafe_index.Tensor(x, [n, c, at[0], at[1]])
        value = torch.where(inside.unsqueeze(1), pixel, 0)
        return value if weight is None else value * torch.where(inside, weight, 0).unsqueeze(1)

    ix = _unnormalised(across, width, align_corners)
    iy = _unnormalised(down, height, align_corners)
    if interpolation_mode == CUBIC:
        return _cubic(ix, iy, lambda i, j: tap(padded(i, width), padded(j, height)))
    ix, iy = padded(ix, width), padded(iy, height)
    if interpolation_mode == NEAREST:
        return tap(ix.round(), iy.round())
    left, top = ix.floor(), iy.floor()
    right, bottom = left + 1, top + 1
    return (
        tap(left, top, (right - ix) * (bottom - iy))
        + tap(right, top, (ix - left) * (bottom - iy))
        + tap(left, bottom, (right - ix) * (iy - top))
        + tap(right, bottom, (ix - left) * (iy - top))
    )


def _unnormalised(place: Tensor, extent: int, align_corners: bool) -> Tensor:
    """From [-1, 1] to pixels: the ends are centres of pixels, or outer edges of them."""
    if align_corners:
        return (place + 1) / 2 * (extent - 1)
    return ((place + 1) * extent - 1) / 2


def _reflected(pixel: Tensor, extent: int, align_corners: bool) -> Tensor:
    """Reflected at the first and last pixel's centre or outer edge until it lies between them."""
    low, span = (0.0, extent - 1) if align_corners else (-0.5, extent)
    if span == 0:
        return torch.zeros_like(pixel)
    distance = (pixel - low).abs()
    rest, turns = distance.fmod(span), (distance / span).floor()
    return torch.where(turns.fmod(2) == 0, rest, span - rest) + low


def _cubic(ix: Tensor, iy: Tensor, tap: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    left, top = ix.floor(), iy.floor()
    columns, rows = _coefficients(ix - left), _coefficients(iy - top)

    def row(j: int) -> Tensor:
        taps = [tap(left + (i - 1), top + (j - 1)) * columns[i].unsqueeze(1) for i in range(4)]
        return taps[0] + taps[1] + taps[2] + taps[3]

    parts = [row(j) * rows[j].unsqueeze(1) for j in range(4)]
    return parts[0] + parts[1] + parts[2] + parts[3]


def _coefficients(t: Tensor) -> list[Tensor]:
    """Weights of the pixels at -1, 0, 1 and 2 for a place at ``t`` in [0, 1): R. Keys, "Cubic
    Convolution Interpolation for Digital Image Processing" (1981)."""

    def near(d: Tensor) -> Tensor:
        return ((_A + 2) * d - (_A + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((_A * d - 5 * _A) * d + 8 * _A) * d - 4 * _A

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
