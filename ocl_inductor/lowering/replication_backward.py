"""Gradients of padding by repetition: the ends take the sums of their copies."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.expr import compare, const, index_value, masked, op, where
from ocl_inductor.ir.index import as_size, loop_vars, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.lowering.registry import CannotLower, register
from ocl_inductor.lowering.shapes import cast_value, full, in_bounds, reused, static_sizes
from ocl_inductor.lowering.values import Value, reindex

aten = torch.ops.aten


def _slab_sum(ctx: LoweringContext, grad: Value, d: int, start: int, length: int) -> Value:
    """Sum over ``length`` slices from ``start`` on; the dimension disappears."""
    variables: list[sympy.Expr] = list(loop_vars(grad.ndim))
    variables[d] = variables[d] + start
    size = (*grad.size[:d], length, *grad.size[d + 1 :])
    return reduce_dims(ctx, reindex(grad, size, variables), [d], "sum")


def _unpadded(ctx: LoweringContext, grad: Value, d: int, left: int, n: int) -> Value:
    """Dimension ``d`` without its padding: ``left`` copies in front of ``n`` elements.

    Element ``i`` was copied to ``i + left``; the first one to what lies before as well, the last
    one to what lies behind. A negative ``left`` was a cut.
    """
    m = static_sizes([grad.size[d]], "padding")[0]
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
    for end, start, length in ((0, 0, min(left, m)), (n - 1, left + n, m - left - n)):
        if length > 0:
            copies = _slab_sum(ctx, grad, d, start, length).at(rest)
            is_end = compare("eq", index_value(here, torch.int32), const(end, torch.int32))
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
    pads = static_sizes([as_size(p) for p in padding], "padding")
    extents = static_sizes(x.size[x.ndim - len(pads) // 2 :], "padding")
    if any(same(s, 0) for s in (*x.size, *grad.size)):
        return full(x.size, 0, x.dtype)
    if not x.dtype.is_floating_point:
        raise CannotLower(f"gradient of {x.dtype}")
    result = cast_value(grad, accumulation_dtype(x.dtype))
    for k, n in enumerate(reversed(extents)):
        left = pads[2 * k]
        if left + n <= 0:
            raise CannotLower("padding that cuts the whole dimension")
        result = _unpadded(ctx, result, x.ndim - 1 - k, left, n)
    return cast_value(result, x.dtype)
