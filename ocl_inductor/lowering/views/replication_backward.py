"""Gradients of padding by repetition: the ends take the sums of their copies."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.expr import compare, const, index_value, masked, op, where
from ocl_inductor.ir.index import Size, as_size, is_static, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import (
    cast_value,
    decide,
    full,
    in_bounds,
    position_dtype,
    reused,
    size_expr,
)
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def _slab_sum(ctx: LoweringContext, grad: Value, d: int, start: Size, length: Size) -> Value:
    """Sum over ``length`` slices from ``start`` on; the dimension disappears."""
    variables: list[sympy.Expr] = list(loop_vars(grad.ndim))
    variables[d] = variables[d] + start
    size = (*grad.size[:d], length, *grad.size[d + 1 :])
    return reduce_dims(ctx, reindex(grad, size, variables), [d], "sum")


def _unpadded(ctx: LoweringContext, grad: Value, d: int, left: Size, right: Size, n: Size) -> Value:
    """Dimension ``d`` without its padding: ``left`` and ``right`` copies around ``n`` elements.

    Element ``i`` was copied to ``i + left``; the first one to what lies before as well, the last
    one to what lies behind. A negative number was a cut.
    """
    m = grad.size[d]
    before, behind = (0, left), (left + n, right)  # first copy, and how many
    if not (decide(ctx, left + n > 0) and decide(ctx, right + n > 0)):
        # What is cut away reaches into the copies at the other end.
        if not all(is_static(x) for x in (m, left, n)):
            raise CannotLower("padding of symbolic size that cuts the whole dimension")
        before = (0, min(int(left), int(m)))
        first = max(int(left) + int(n), 0)
        behind = (first, int(m) - first)
    grad = reused(ctx, grad)
    size = (*grad.size[:d], n, *grad.size[d + 1 :])
    variables = loop_vars(grad.ndim)
    ranges = dict(zip(variables, size, strict=True))
    here, rest = variables[d], [*variables[:d], *variables[d + 1 :]]
    at = [*variables[:d], here + left, *variables[d + 1 :]]
    total, zero = grad.at(at), const(0, grad.dtype)
    inside = in_bounds(here + left, 0, m, ranges)
    if inside is not None:
        total = masked(inside, total, zero)
    dtype = position_dtype(n)
    for end, (start, length) in ((0, before), (n - 1, behind)):
        if decide(ctx, length > 0):
            copies = _slab_sum(ctx, grad, d, start, length).at(rest)
            is_end = compare("eq", index_value(here, dtype), size_expr(end, dtype))
            total = op("add", total, where(is_end, copies, zero))
    return reindex(Value(size, grad.dtype, total), size, variables)


@register(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)
def lower_replication_pad_backward(
    ctx: LoweringContext, grad: Value, x: Value, padding: Sequence[int]
) -> Value:
    """``padding``: before and after, of the last dimension first."""
    pads = [as_size(p) for p in padding]
    if any(same(s, 0) for s in (*x.size, *grad.size)):
        return full(x.size, 0, x.dtype)
    if not x.dtype.is_floating_point:
        raise CannotLower(f"gradient of {x.dtype}")
    result = cast_value(grad, accumulation_dtype(x.dtype))
    for k, (left, right) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        d = x.ndim - 1 - k
        result = _unpadded(ctx, result, d, left, right, x.size[d])
    return cast_value(result, x.dtype)
