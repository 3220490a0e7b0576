"""Volumes sampled at computed places (``grid_sampler_3d``).

Positions and weights follow ATen's ``GridSampler.h``; taps outside the volume count as 0. (For
images see :mod:`ocl_inductor.capture.decompositions.sampling`, which gives the same form.)
"""

from __future__ import annotations

import itertools
from functools import reduce

import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, logical_and, op, where
from ocl_inductor.ir.index import loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import Coordinate, clamp, element, in_memory
from ocl_inductor.lowering.core.shapes import full, reused, static_sizes
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pointwise.in_float32 import in_float32
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.operators.sampling import LINEAR, NEAREST, REFLECTION, ZEROS

aten = torch.ops.aten


def unnormalised(place: Expr, extent: int, align_corners: bool) -> Expr:
    """From [-1, 1] to pixels: the ends are centres of pixels, or outer edges of them."""
    shifted = op("add", place, const(1.0, place.dtype))
    half = const(2.0, place.dtype)
    if align_corners:
        return op("mul", op("div", shifted, half), const(float(extent - 1), place.dtype))
    scaled = op("mul", shifted, const(float(extent), place.dtype))
    return op("div", op("sub", scaled, const(1.0, place.dtype)), half)


def reflected(place: Expr, extent: int, align_corners: bool) -> Expr:
    """Reflected at the first and last pixel's centre or outer edge until it lies between them."""
    low = 0.0 if align_corners else -0.5
    span = float(extent - 1 if align_corners else extent)
    dtype = place.dtype
    if span == 0.0:
        return const(0.0, dtype)
    far, start = const(span, dtype), const(low, dtype)
    distance = op("abs", op("sub", place, start))
    rest = op("fmod", distance, far)
    turns = op("floor", op("div", distance, far))
    odd = compare("ne", op("fmod", turns, const(2.0, dtype)), const(0.0, dtype))
    return op("add", where(odd, op("sub", far, rest), rest), start)


def padded(pixel: Expr, extent: int, padding: int, align_corners: bool) -> Expr:
    """A position in pixels, brought inside as the padding says."""
    if padding == ZEROS:
        return pixel
    if padding == REFLECTION:
        pixel = reflected(pixel, extent, align_corners)
    inside = op("maximum", pixel, const(0.0, pixel.dtype))
    return op("minimum", inside, const(float(extent - 1), pixel.dtype))


def _position(place: Expr, extent: int, padding: int, align_corners: bool) -> Expr:
    return padded(unnormalised(place, extent, align_corners), extent, padding, align_corners)


def tap(whole: Expr, extent: int) -> tuple[Expr, Expr]:
    """A whole position as a clamped index, and whether it needed no clamping."""
    above = compare("ge", whole, const(0.0, whole.dtype))
    below = compare("le", whole, const(float(extent - 1), whole.dtype))
    inside = logical_and(above, below)
    safe = where(inside, whole, const(0.0, whole.dtype))
    return clamp(cast(safe, torch.int32), extent), inside


@register(aten.grid_sampler_3d.default)
@in_float32
def lower_grid_sampler_3d(
    ctx: LoweringContext,
    x: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Value:
    """``x`` [n, c, depth, height, width] at ``grid`` [n, d, h, w, 3]; its last axis is x, y, z."""
    if x.dtype not in (torch.float32, torch.float64) or grid.dtype is not x.dtype:
        raise CannotLower(f"sampling {x.dtype} at {grid.dtype}")
    if interpolation_mode not in (LINEAR, NEAREST):
        raise CannotLower("sampling a volume is linear or nearest")
    size = (*x.size[:2], *grid.size[1:4])
    if any(same(n, 0) for n in (*size, *x.size)):
        return full(size, 0, x.dtype)
    extents = static_sizes(x.size[2:], "sampling a volume")
    source, grid = in_memory(ctx, x), reused(ctx, grid)
    n, c, *point = loop_vars(5)
    positions = [
        _position(grid.at([n, *point, 2 - axis]), extents[axis], padding_mode, align_corners)
        for axis in range(3)
    ]
    one, zero = const(1.0, x.dtype), const(0.0, x.dtype)
    # For each axis, what is read: (index, whether it is inside, weight).
    axes: list[list[tuple[Expr, Expr, Expr]]] = []
    for position, extent in zip(positions, extents, strict=True):
        if interpolation_mode == NEAREST:
            axes.append([(*tap(op("round", position), extent), one)])
            continue
        first = op("floor", position)
        second = op("add", first, one)
        axes.append(
            [
                (*tap(first, extent), op("sub", second, position)),
                (*tap(second, extent), op("sub", position, first)),
            ]
        )
    total: Expr | None = None
    for taps in itertools.product(*axes):
        coordinates: list[Coordinate] = [n, c, *(index for index, _, _ in taps)]
        inside = reduce(logical_and, (t[1] for t in taps))
        value = where(inside, element(source, coordinates), zero)
        if interpolation_mode == LINEAR:
            # The innermost axis first, as in eager.
            weight = reduce(lambda a, b: op("mul", a, b), (t[2] for t in reversed(taps)))
            value = op("mul", value, where(inside, weight, zero))
        total = value if total is None else op("add", total, value)
    assert total is not None
    return ctx.realize(Value(size, x.dtype, total), tuple(range(5)))
