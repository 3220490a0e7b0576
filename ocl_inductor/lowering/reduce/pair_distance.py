"""Distances between the rows of one matrix, each pair once (pdist), and their gradients.

Pair ``k`` counts through (0, 1), (0, 2), ... (1, 2), ...; rows of pairs begin at
``i * (2n - i - 1) / 2``.
"""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import Expr, compare, const, index_value, logical_and, op, where
from ocl_inductor.ir.index import loop_vars
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import clamp, element, in_memory
from ocl_inductor.lowering.core.shapes import full, position_dtype, static_sizes
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.reduce.distance import check_norm, has_slope, norm_of, slope, term_of
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.operators.registry import register

aten = torch.ops.aten


def _start(i: Expr, n: int) -> Expr:
    """The first pair of row ``i``."""
    twice = op("mul", i, op("sub", const(2 * n - 1, i.dtype), i))
    return op("trunc_div", twice, const(2, i.dtype))


def _row_of_pair(ctx: LoweringContext, n: int, count: int) -> Value:
    """``[count]``: the smaller row of each pair, by bisection among the rows' first pairs."""
    dtype = position_dtype(2 * n, n)
    k = index_value(loop_vars(1)[0], dtype)
    row, step = const(0, dtype), 1 << max(n - 1, 1).bit_length()
    while step:
        further = op("add", row, const(step, dtype))
        exists = compare("lt", further, const(n - 1, dtype))
        reached = compare("le", _start(clamp(further, n), n), k)
        row = where(logical_and(exists, reached), further, row)
        step //= 2
    return ctx.realize(Value((count,), dtype, row))


@register(aten._pdist_forward.default)
def lower_pdist(ctx: LoweringContext, x: Value, p: float = 2.0) -> Value:
    """``||x[i] - x[j]||_p`` for each i < j."""
    check_norm(x, p)
    n, width = static_sizes(x.size, "pdist")
    count = n * (n - 1) // 2
    if count == 0 or width == 0:
        return full((count,), 0, x.dtype)
    source = in_memory(ctx, x)
    rows = _row_of_pair(ctx, n, count)
    k, column = loop_vars(2)
    i = rows.at([k])
    after = op("sub", index_value(k, i.dtype), _start(i, n))
    j = clamp(op("add", op("add", i, after), const(1, i.dtype)), n)
    difference = op("sub", element(source, [i, column]), element(source, [j, column]))
    terms = Value((count, width), x.dtype, term_of(difference, float(p)))
    how = "max" if float(p) == float("inf") else "sum"
    total = reduce_dims(ctx, terms, [1], how)
    return Value(total.size, x.dtype, norm_of(total.body, float(p)))


@register(aten._pdist_backward.default)
def lower_pdist_backward(
    ctx: LoweringContext, grad: Value, x: Value, p: float, pdist: Value
) -> Value:
    """Each row sums over its pairs with all others."""
    check_norm(x, p)
    p = float(p)
    n, width = static_sizes(x.size, "pdist")
    if n < 2 or width == 0 or p == 0.0:
        return full(x.size, 0, x.dtype)
    source, grad, pdist = (in_memory(ctx, v) for v in (x, grad, pdist))
    row, other, column = loop_vars(3)
    dtype = position_dtype(2 * n, n)
    i, j = index_value(row, dtype), index_value(other, dtype)
    low, high = op("minimum", i, j), op("maximum", i, j)
    pair = op("add", _start(low, n), op("sub", op("sub", high, low), const(1, dtype)))
    pair = clamp(pair, n * (n - 1) // 2)
    d = op("sub", source.at([row, column]), source.at([other, column]))
    dist, zero = element(pdist, [pair]), const(0.0, x.dtype)
    apart = logical_and(compare("ne", i, j), has_slope(d, dist, p, zero))
    body = where(apart, op("mul", element(grad, [pair]), slope(d, dist, p)), zero)
    return reduce_dims(ctx, Value((n, n, width), x.dtype, body), [1], "sum")
