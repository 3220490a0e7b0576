"""Windows of signals (``hann_window`` and its like) by simpler operators, as ATen computes them.

A window of N points is a function of ``2 pi n / N`` where it is periodic, of ``2 pi n / (N - 1)``
where it is not. Half types are computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

aten = torch.ops.aten

#: Of the positions 0, 1, ..., and their number of steps.
_Shape = Callable[[Tensor, int], Tensor]


def _window(
    shape: _Shape,
    length: int,
    periodic: bool,
    dtype: torch.dtype | None,
    layout: torch.layout | None,
    device: torch.device | None,
) -> object:
    """A window of ``length`` points, which Dynamo makes a number; what eager refuses, and other
    layouts, are left to it."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    strided = layout in (None, torch.strided)
    if not strided or not dtype.is_floating_point or length < 0:
        return NotImplemented
    if length <= 1:
        return torch.ones(length, dtype=dtype, device=device)
    half = dtype in (torch.float16, torch.bfloat16)
    positions = torch.arange(length, dtype=torch.float32 if half else dtype, device=device)
    return shape(positions, length if periodic else length - 1).to(dtype)


def _cosines(alpha: float, beta: float) -> _Shape:
    return lambda n, steps: (n * (2 * math.pi / steps)).cos() * -beta + alpha


def _blackman(n: Tensor, steps: int) -> Tensor:
    angle = n * (math.pi / steps)
    return (angle * 4).cos() * 0.08 - (angle * 2).cos() * 0.5 + 0.42


def _bartlett(n: Tensor, steps: int) -> Tensor:
    rising = n * (2 / steps)
    return torch.where(n <= steps >> 1, rising, 2 - rising)


def _named(shape: _Shape) -> Callable[..., object]:
    def decompose(
        window_length: int,
        periodic: bool = True,
        *,
        dtype: torch.dtype | None = None,
        layout: torch.layout | None = None,
        device: torch.device | None = None,
        pin_memory: bool | None = None,
    ) -> object:
        return _window(shape, window_length, periodic, dtype, layout, device)

    return decompose


def _hamming(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **where: object,
) -> object:
    return _named(_cosines(alpha, beta))(window_length, periodic, **where)


_HANN, _BLACKMAN, _BARTLETT = map(_named, (_cosines(0.5, 0.5), _blackman, _bartlett))

WINDOWS: dict[torch._ops.OpOverload, Callable[..., object]] = {
    aten.hann_window.default: _HANN,
    aten.hann_window.periodic: _HANN,
    aten.hamming_window.default: _hamming,
    aten.hamming_window.periodic: _hamming,
    aten.hamming_window.periodic_alpha: _hamming,
    aten.hamming_window.periodic_alpha_beta: _hamming,
    aten.blackman_window.default: _BLACKMAN,
    aten.blackman_window.periodic: _BLACKMAN,
    aten.bartlett_window.default: _BARTLETT,
    aten.bartlett_window.periodic: _BARTLETT,
}
