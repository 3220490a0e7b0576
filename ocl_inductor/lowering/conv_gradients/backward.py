"""Gradients of convolutions.

The input's gradient is a transposed convolution of the result's gradient, and the other way round;
the weight's is in weight_gradient.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import const, masked, op
from ocl_inductor.ir.index import Size, loop_vars, same
from ocl_inductor.lowering.conv.conv import convolve
from ocl_inductor.lowering.conv.geometry import (
    Geometry,
    WeightGradient,
    channels_last,
    read_geometry,
)
from ocl_inductor.lowering.conv_gradients.weight_gradient import weight_gradient
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import all_of, cast_value, full, in_bounds
from ocl_inductor.lowering.core.values import Value, permute, reindex, reshape
from ocl_inductor.lowering.matmul.matmul import compute_dtype
from ocl_inductor.lowering.matmul.mma_product import takes_halves
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

#: Most windows that cover one element in an unrolled sum.
_MAX_COVERS = 49


@register(aten.convolution_backward.default)
def lower_convolution_backward(
    ctx: LoweringContext,
    grad: Value,
    x: Value,
    weight: Value,
    bias_sizes: Sequence[Size] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """Gradients of ``x`` (n, c, \\*spatial), the weight and the bias; None where not asked for.

    ``weight`` is (oc, c/groups, \\*kernel), of a transposed convolution (c, oc/groups, \\*kernel).
    """
    if not all(isinstance(v, Value) for v in (grad, x, weight)):
        raise CannotLower("an operand lives on the host")
    if not (grad.dtype == x.dtype == weight.dtype) or not x.dtype.is_floating_point:
        raise CannotLower(f"gradient of a convolution of {x.dtype} and {weight.dtype}")
    g = read_geometry(x, weight, stride, padding, dilation, transposed, output_padding, groups)
    dtype = compute_dtype(x.dtype)
    order = channels_last(g.ndim)
    if any(same(s, 0) for v in (grad, x, weight) for s in v.size):
        wanted = [v if asked else None for v, asked in zip((x, weight), output_mask[:2])]
        zeros = [None if v is None else full(v.size, 0, v.dtype) for v in wanted]
        bias = full((grad.size[1],), 0, grad.dtype) if output_mask[2] else None
        return zeros[0], zeros[1], bias
    # Every gradient reads it, along channels.
    halves = g.groups == 1 and (takes_halves(ctx, grad, weight) or _goes_to_unit(ctx, grad))
    grad = ctx.realize(grad if halves else cast_value(grad, dtype), order)
    for_x = for_weight = for_bias = None
    if output_mask[0]:
        taps = weight if halves else cast_value(weight, dtype)
        for_x = cast_value(_input_gradient(ctx, grad, taps, x, g), x.dtype)
    if output_mask[1]:
        fine, coarse = (grad, x) if transposed else (x, grad)
        problem = WeightGradient(coarse, fine, weight.size, g, dtype)
        for_weight = cast_value(weight_gradient(ctx, problem), weight.dtype)
    if output_mask[2]:
        dims = [0, *range(2, grad.ndim)]
        sums = reduce_dims(ctx, cast_value(grad, dtype), dims, "sum")
        for_bias = cast_value(sums, weight.dtype)
    return for_x, for_weight, for_bias


def _goes_to_unit(ctx: LoweringContext, grad: Value) -> bool:
    """Whether a CPU's matrix unit multiplies it as it is."""
    return ctx.device.amx and grad.dtype is torch.bfloat16


# -- the input's gradient ------------------------------------------------------------------


def _input_gradient(
    ctx: LoweringContext, grad: Value, weight: Value, x: Value, g: Geometry
) -> Value:
    """A convolution whose input is ``grad`` and whose result has ``x``'s size."""
    other = replace(g, transposed=not g.transposed, sizes=tuple(x.size[2:]))
    if g.transposed or all(s == 1 for s in g.stride):
        return convolve(ctx, grad, weight, other)
    if g.groups == 1 and all(k == 1 for k in g.kernel):
        return _spread_apart(ctx, grad, weight, x, g)
    depthwise = same(g.groups, grad.size[1]) and same(weight.size[1], 1)
    covers = math.prod(-(-k // s) for k, s in zip(g.kernel, g.stride, strict=True))
    if depthwise and all(d == 1 for d in g.dilation) and covers <= _MAX_COVERS:
        return _depthwise(ctx, grad, weight, x, g)
    return convolve(ctx, grad, weight, other)


def _spread_apart(ctx: LoweringContext, grad: Value, weight: Value, x: Value, g: Geometry) -> Value:
    """Windows of one pixel, ``stride`` apart: a product for each window, zeros between them."""
    ones = (1,) * g.ndim
    plain = replace(
        g, stride=ones, padding=(0,) * g.ndim, transposed=True, sizes=tuple(grad.size[2:])
    )
    product = ctx.realize(convolve(ctx, grad, weight, plain))
    variables = loop_vars(x.ndim)
    ranges = dict(zip(variables, x.size, strict=True))
    where, conditions = [], []
    for v, s, q, n in zip(variables[2:], g.stride, g.padding, product.size[2:], strict=True):
        window = FloorDiv(v + q, sympy.Integer(s))
        where.append(window)
        conditions.append(in_bounds(v + q - window * s, 0, 1, ranges))
        conditions.append(in_bounds(window, 0, n, ranges))
    inside = all_of(conditions)
    element = product.at([*variables[:2], *where])
    if inside is not None:
        element = masked(inside, element, const(0, product.dtype))
    return reindex(Value(x.size, product.dtype, element), x.size, list(variables))


def _depthwise(ctx: LoweringContext, grad: Value, weight: Value, x: Value, g: Geometry) -> Value:
    """Sum over the windows that cover an element, unrolled; vectors along channels.

    With stride s and without dilation these are ``(v + padding) // s - j`` for j below kernel / s.
    """
    nd = g.ndim
    taps = permute(reshape(weight, (weight.size[0], *g.kernel)), (*range(1, nd + 1), 0))
    taps = ctx.realize(taps, range(nd + 1))
    variables = loop_vars(x.ndim)
    ranges = dict(zip(variables, x.size, strict=True))
    total = const(0, grad.dtype)
    counts = [-(-k // s) for k, s in zip(g.kernel, g.stride, strict=True)]
    for back in _positions(counts):
        windows, tap, conditions = [], [], []
        for d, j in enumerate(back):
            shifted = variables[2 + d] + g.padding[d]
            window = FloorDiv(shifted, sympy.Integer(g.stride[d])) - j
            windows.append(window)
            tap.append(shifted - window * g.stride[d])
            conditions.append(in_bounds(window, 0, grad.size[2 + d], ranges))
            conditions.append(in_bounds(tap[-1], 0, g.kernel[d], ranges))
        term = op("mul", grad.at([*variables[:2], *windows]), taps.at([*tap, variables[1]]))
        inside = all_of(conditions)
        if inside is not None:
            term = masked(inside, term, const(0, grad.dtype))
        total = op("add", total, term)
    value = reindex(Value(x.size, grad.dtype, total), x.size, list(variables))
    return ctx.pointwise(value, channels_last(nd))


def _positions(extents: Sequence[int]) -> list[tuple[int, ...]]:
    positions: list[tuple[int, ...]] = [()]
    for n in extents:
        positions = [(*p, i) for p in positions for i in range(n)]
    return positions
