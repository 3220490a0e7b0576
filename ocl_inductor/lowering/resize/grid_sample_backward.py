"""Gradients of images and volumes sampled at computed places (``GridSampler.h`` of ATen).

Each sample reads a few *taps* on every axis, a loop variable here: the gradient of the input adds
``weight * grad`` at the taps, one sample after another in each channel; that of the grid sums
``slope * input * grad`` over taps and channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch

from ocl_inductor.ir.expr import Expr, compare, const, index_value, logical_and, op, where
from ocl_inductor.ir.index import loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import Coordinate, element, in_memory
from ocl_inductor.lowering.core.shapes import full, static_sizes
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.indexing.scatter import scatter_points
from ocl_inductor.lowering.pointwise.in_float32 import in_float32
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.lowering.resize.grid_sample import padded, reflected, tap, unnormalised
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.operators.sampling import BORDER, CUBIC, LINEAR, NEAREST, REFLECTION

aten = torch.ops.aten

#: Keys' kernel with the parameter that ATen uses.
_A = -0.75

#: Taps that each interpolation reads on an axis.
_TAPS = {LINEAR: 2, NEAREST: 1, CUBIC: 4}


@dataclass(frozen=True, slots=True)
class _Tap:
    """Where a tap reads, whether that is inside, its weight, and the weight's derivative by the
    grid.
    """

    index: Expr
    inside: Expr
    weight: Expr
    slope: Expr


@dataclass(frozen=True, slots=True)
class _Sampling:
    """The arguments of an operator; ``extents`` of the input, outermost axis first."""

    extents: tuple[int, ...]
    mode: int
    padding: int
    align_corners: bool

    def tap(self, axis: int, place: Expr, which: sympy.Expr) -> _Tap:
        """Tap ``which`` (a loop variable) on ``axis`` of a sample at ``place`` in [-1, 1]."""
        extent, dtype = self.extents[axis], place.dtype
        pixel = unnormalised(place, extent, self.align_corners)
        per_place = const((extent - 1 if self.align_corners else extent) / 2, dtype)
        if self.mode == CUBIC:
            return self._cubic(pixel, per_place, extent, which)
        rate = op("mul", per_place, self._rate(pixel, extent))
        pixel = padded(pixel, extent, self.padding, self.align_corners)
        one, zero = const(1.0, dtype), const(0.0, dtype)
        if self.mode == NEAREST:
            return _Tap(*tap(op("round", pixel), extent), one, zero)
        first = op("floor", pixel)
        fraction = op("sub", pixel, first)
        second = _chosen([zero, one], which)
        index, inside = tap(op("add", first, second), extent)
        weight = _chosen([op("sub", one, fraction), fraction], which)
        return _Tap(index, inside, weight, _chosen([op("neg", rate), rate], which))

    def _rate(self, pixel: Expr, extent: int) -> Expr:
        """Derivative of the padded position by the position: 0 where it is held at an end."""
        dtype = pixel.dtype
        one, zero = const(1.0, dtype), const(0.0, dtype)
        if self.padding not in (BORDER, REFLECTION):
            return one
        rate = one
        if self.padding == REFLECTION:
            span = float(extent - 1 if self.align_corners else extent)
            if span == 0.0:
                return zero
            distance = op("sub", pixel, const(0.0 if self.align_corners else -0.5, dtype))
            turns = op("floor", op("div", op("abs", distance), const(span, dtype)))
            odd = compare("ne", op("fmod", turns, const(2.0, dtype)), zero)
            rate = where(compare("lt", distance, zero), const(-1.0, dtype), one)
            rate = where(odd, op("neg", rate), rate)
            pixel = reflected(pixel, extent, self.align_corners)
        low, high = compare("le", pixel, zero), compare("ge", pixel, const(extent - 1.0, dtype))
        return where(op("logical_or", low, high), zero, rate)

    def _cubic(self, pixel: Expr, per_place: Expr, extent: int, which: sympy.Expr) -> _Tap:
        dtype = pixel.dtype
        first = op("floor", pixel)
        t = op("sub", pixel, first)
        one = const(1.0, dtype)
        step = _chosen([const(k - 1.0, dtype) for k in range(4)], which)
        whole = padded(op("add", first, step), extent, self.padding, self.align_corners)
        rest = op("sub", one, t)
        distances = [op("add", t, one), t, rest, op("add", rest, one)]
        far, near = (_A, -5 * _A, 8 * _A, -4 * _A), (_A + 2, -(_A + 3), 0.0, 1.0)
        weights, slopes = [], []
        for d, kernel, sign in zip(distances, (far, near, near, far), (1, 1, -1, -1), strict=True):
            a, b, c, _ = kernel
            weights.append(_polynomial(d, kernel))
            slopes.append(_polynomial(d, (sign * 3 * a, sign * 2 * b, sign * c)))
        slope = op("mul", _chosen(slopes, which), per_place)
        return _Tap(*tap(whole, extent), _chosen(weights, which), slope)


def _polynomial(t: Expr, coefficients: Sequence[float]) -> Expr:
    """Horner's scheme, highest power first."""
    result = const(coefficients[0], t.dtype)
    for c in coefficients[1:]:
        result = op("add", op("mul", result, t), const(c, t.dtype))
    return result


def _chosen(options: Sequence[Expr], which: sympy.Expr) -> Expr:
    """``options[which]``."""
    result = options[-1]
    number = index_value(which, torch.int32)
    for k in range(len(options) - 2, -1, -1):
        result = where(compare("eq", number, const(k, torch.int32)), options[k], result)
    return result


def _product(terms: Sequence[Expr]) -> Expr:
    result = terms[0]
    for term in terms[1:]:
        result = op("mul", result, term)
    return result


@register(aten.grid_sampler_2d_backward.default, aten.grid_sampler_3d_backward.default)
@in_float32
def lower_grid_sampler_backward(
    ctx: LoweringContext,
    grad: Value,
    x: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None]:
    r"""Gradients of ``x`` [n, c, \*extents] and ``grid`` [n, \*size, axes] by ``grad``
    [n, c, \*size]; the grid's last axis counts from the innermost axis of ``x``.
    """
    if x.dtype not in (torch.float32, torch.float64) or grid.dtype is not x.dtype:
        raise CannotLower(f"sampling {x.dtype} at {grid.dtype}")
    extents = tuple(static_sizes(x.size[2:], "sampling"))
    if any(same(s, 0) for v in (grad, x, grid) for s in v.size):
        wanted = (full(v.size, 0, v.dtype) if m else None for v, m in zip((x, grid), output_mask))
        return next(wanted), next(wanted)
    sampling = _Sampling(extents, interpolation_mode, padding_mode, align_corners)
    grad, grid = in_memory(ctx, grad), in_memory(ctx, grid)
    for_x = _input_gradient(ctx, grad, x, grid, sampling) if output_mask[0] else None
    for_grid = _grid_gradient(ctx, grad, x, grid, sampling) if output_mask[1] else None
    return for_x, for_grid


def _input_gradient(
    ctx: LoweringContext, grad: Value, x: Value, grid: Value, sampling: _Sampling
) -> Value:
    axes = len(sampling.extents)
    size = (*grad.size, *[_TAPS[sampling.mode]] * axes)
    n, c, *rest = loop_vars(len(size))
    point, which = rest[:axes], rest[axes:]
    taps = [sampling.tap(a, grid.at([n, *point, axes - 1 - a]), which[a]) for a in range(axes)]
    value = op("mul", grad.at([n, c, *point]), _product([t.weight for t in taps]))
    for t in taps:
        value = where(t.inside, value, const(0.0, x.dtype))
    coordinates: list[Coordinate] = [n, c, *(t.index for t in taps)]
    base = full(x.size, 0, x.dtype)
    return scatter_points(ctx, base, size, coordinates, value, range(2, len(size)), "sum")


def _grid_gradient(
    ctx: LoweringContext, grad: Value, x: Value, grid: Value, sampling: _Sampling
) -> Value:
    axes = len(sampling.extents)
    if sampling.mode == NEAREST:
        return full(grid.size, 0, grid.dtype)
    taps_each = [_TAPS[sampling.mode]] * axes
    size = (*grid.size[:-1], *taps_each, x.size[1])
    n, *rest = loop_vars(len(size))
    point, which, c = rest[:axes], rest[axes : 2 * axes], rest[-1]
    taps = [sampling.tap(a, grid.at([n, *point, axes - 1 - a]), which[a]) for a in range(axes)]
    source = in_memory(ctx, x)
    read = op("mul", element(source, [n, c, *(t.index for t in taps)]), grad.at([n, c, *point]))
    inside = taps[0].inside
    for t in taps[1:]:
        inside = logical_and(inside, t.inside)
    totals = []
    for axis in range(axes):
        factor = _product([t.slope if a == axis else t.weight for a, t in enumerate(taps)])
        term = where(inside, op("mul", read, factor), const(0.0, x.dtype))
        terms = Value(size, x.dtype, term)
        totals.append(ctx.realize(reduce_dims(ctx, terms, range(axes + 1, len(size)), "sum")))
    *lead, last = loop_vars(grid.ndim)
    inner_first = [t.at(lead) for t in reversed(totals)]
    return Value(grid.size, grid.dtype, _chosen(inner_first, last))
