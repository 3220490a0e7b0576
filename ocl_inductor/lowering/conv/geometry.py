"""A convolution: its spatial arguments, the extents that follow, and the problem as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.lowering.core.shapes import static_sizes
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.operators.registry import CannotLower


@dataclass(frozen=True, slots=True)
class Geometry:
    """The spatial arguments, one entry for each dimension; ``sizes`` are the output's."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    groups: int
    sizes: tuple[Size, ...]

    @property
    def ndim(self) -> int:
        return len(self.kernel)


def _one_each(x: Sequence[int] | int, n: int, what: str) -> tuple[int, ...]:
    values = static_sizes([x] if isinstance(x, int) else list(x), f"convolution's {what}")
    return tuple(values * n if len(values) == 1 else values)


def output_size(size: Size, kernel: int, stride: int, padding: int, dilation: int) -> Size:
    """Extent of a plain convolution's result along one dimension (torch.nn.Conv2d's formula)."""
    span = size + (2 * padding - dilation * (kernel - 1) - 1)
    if is_static(span):
        return int(span) // stride + 1
    return (FloorDiv(span, stride) if stride != 1 else span) + 1


def transposed_output_size(
    size: Size, kernel: int, stride: int, padding: int, dilation: int, extra: int
) -> Size:
    """Extent of a transposed convolution's result (torch.nn.ConvTranspose2d's formula)."""
    total = (size - 1) * stride + (dilation * (kernel - 1) + 1 + extra - 2 * padding)
    return int(total) if is_static(total) else sympy.expand(total)


def read_geometry(
    x: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Geometry:
    """The arguments of ``aten.convolution``, checked."""
    nd = x.ndim - 2
    if weight.ndim != x.ndim:
        raise CannotLower("convolution without a batch dimension")
    if nd not in (1, 2, 3):
        raise CannotLower(f"convolution in {nd} dimensions")
    static_sizes((x.size[1], *weight.size), "convolution over channels and kernel")
    kernel = tuple(int(s) for s in weight.size[2:])
    strides = _one_each(stride, nd, "stride")
    paddings = _one_each(padding, nd, "padding")
    dilations = _one_each(dilation, nd, "dilation")
    extras = _one_each(output_padding, nd, "output padding")
    if min(dilations) < 1:
        raise CannotLower(f"eager refuses a dilation of {min(dilations)}")
    per_dim = list(zip(x.size[2:], kernel, strides, paddings, dilations, strict=True))
    if transposed:
        for extra, s, d in zip(extras, strides, dilations, strict=True):
            if extra >= max(s, d):
                raise CannotLower(f"eager refuses an output padding of {extra} for stride {s}")
        sizes = tuple(
            transposed_output_size(*args, extra)
            for args, extra in zip(per_dim, extras, strict=True)
        )
    else:
        sizes = tuple(output_size(*args) for args in per_dim)
    return Geometry(kernel, strides, paddings, dilations, bool(transposed), groups, sizes)


def channels_last(nd: int) -> tuple[int, ...]:
    """Permutation of (n, c, \\*spatial) to (n, \\*spatial, c)."""
    return (0, *range(2, nd + 2), 1)


def channels_first(nd: int) -> tuple[int, ...]:
    """Permutation of (n, \\*spatial, c) to (n, c, \\*spatial)."""
    return (0, nd + 1, *range(1, nd + 1))


@dataclass(frozen=True, slots=True)
class Convolution:
    """``x`` (n, c, \\*spatial), ``weight`` (oc, c/groups, \\*kernel), of a transposed one (c,
    oc/groups, \\*kernel), to ``size`` (n, oc, \\*spatial), channels-last in memory.

    ``dtype``: of the result and its sums; the operands may be narrower. ``fill``: what padding
    holds.
    """

    x: Value
    weight: Value
    g: Geometry
    size: tuple[Size, ...]
    dtype: torch.dtype
    fill: int = 0

    @property
    def depthwise(self) -> bool:
        """Whether each channel is convolved with windows of its own."""
        g = self.g
        return g.groups == int(self.x.size[1]) and g.groups > 1 and not g.transposed


@dataclass(frozen=True, slots=True)
class WeightGradient:
    """``result[a, b, t] = sum over n, p of coarse[n, a, p] * fine[n, b, p*stride - padding + t]``.

    ``coarse`` (n, groups*a, \\*windows) has an element for each window, ``fine`` (n, groups*b,
    \\*spatial) is what the windows slide over; ``size`` is the weight's, (groups*a, b, \\*kernel).

    ``dtype``: of the result and its sums; the operands may be narrower.
    """

    coarse: Value
    fine: Value
    size: tuple[Size, ...]
    g: Geometry
    dtype: torch.dtype

    @property
    def inner(self) -> int:
        return int(self.size[1])

    @property
    def outer(self) -> int:
        return int(self.size[0]) // self.g.groups
