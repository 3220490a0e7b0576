"""Sums of overlapping windows: the gradient of ``unfold``, and what an inverse STFT adds up.

An element of the result is in at most ``size / step`` windows (rounded up), whose places are known;
so each is a sum over these, and nothing is scattered.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.dtypes import HALF_TYPES
from ocl_inductor.ir.expr import Expr, const, op
from ocl_inductor.ir.index import Size, as_size, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import (
    all_of,
    full,
    in_bounds,
    normalize_dim,
    static_sizes,
)
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.pointwise.rows import from_compute, to_compute
from ocl_inductor.lowering.views.concat import guarded
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

#: More windows over one element are a loop.
MOST_TERMS = 8


@register(aten.unfold_backward.default)
def lower_unfold_backward(
    ctx: LoweringContext,
    grad_in: Value,
    input_sizes: Sequence[Size],
    dim: int,
    size: int,
    step: int,
) -> Value:
    """``grad_in[.., window, .., place]`` added up at ``window * step + place`` along ``dim``."""
    dtype = grad_in.dtype
    if not input_sizes or dtype is torch.bool:
        raise CannotLower(f"a sum of windows of {dtype}")
    # Half types are added up in float32.
    compute = torch.float32 if dtype in HALF_TYPES else dtype
    source = Value(grad_in.size, compute, to_compute(grad_in.body, compute))
    size, step = static_sizes([as_size(size), as_size(step)], "a sum of windows")
    sizes = tuple(as_size(n) for n in input_sizes)
    dim = normalize_dim(dim, len(sizes))
    windows = grad_in.size[dim]
    if size == 0 or any(same(n, 0) for n in grad_in.size):
        return full(sizes, 0, dtype)
    terms = -(-size // step)
    zero = const(0, compute)
    extended = (*sizes, terms)
    *variables, turn = loop_vars(len(extended))

    def term(number: sympy.Expr) -> Expr:
        """What the ``number``-th window from the last one adds."""
        position = variables[dim]
        window = FloorDiv(position, sympy.Integer(step)) - number
        place = position - step * window
        index = [*variables[:dim], window, *variables[dim + 1 :], place]
        ranges = dict(zip((*variables, turn), extended, strict=True))
        inside = all_of([in_bounds(window, 0, windows, ranges), in_bounds(place, 0, size, ranges)])
        return guarded(inside, source.at(index), zero)

    if terms > MOST_TERMS:
        every = reindex(Value(extended, compute, term(turn)), extended, [*variables, turn])
        total = ctx.reduce(every, [len(sizes)], "sum")
        return Value(sizes, dtype, from_compute(total.body, dtype))
    body = term(sympy.Integer(terms - 1))
    for number in range(terms - 2, -1, -1):  # from the first window on, as eager adds them
        body = op("add", body, term(sympy.Integer(number)))
    total = reindex(Value(sizes, compute, body), sizes, variables)
    return Value(sizes, dtype, from_compute(total.body, dtype))
