"""Convolutions as plain expressions: depthwise ones without a template, and integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, const, masked, op
from ocl_inductor.ir.index import Size, loop_vars
from ocl_inductor.lowering.conv.geometry import Geometry, channels_last
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import all_of, in_bounds
from ocl_inductor.lowering.core.values import Value, permute, reindex, reshape
from ocl_inductor.operators.registry import CannotLower

#: Depthwise convolutions with more taps than this would be too long an expression.
MAX_UNROLLED_TAPS = 49


def window_element(
    x: Value, channel: sympy.Expr, n: sympy.Expr, pixel: Sequence[sympy.Expr],
    tap: Sequence[sympy.Expr | int], g: Geometry, ranges: Any,
) -> Expr:  # fmt: skip
    """Element of ``x`` under ``tap`` of the window at output ``pixel``; zero outside."""
    where = [
        p * s - q + t * d
        for p, s, q, t, d in zip(pixel, g.stride, g.padding, tap, g.dilation, strict=True)
    ]
    inside = all_of(in_bounds(w, 0, s, ranges) for w, s in zip(where, x.size[2:], strict=True))
    element = x.at([n, channel, *where])
    return element if inside is None else masked(inside, element, const(0, x.dtype))


def depthwise_expression(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, result_size: tuple[Size, ...]
) -> Value:
    """Each output channel reads one input channel: taps unrolled, vectors along channels."""
    order = channels_last(g.ndim)
    x = ctx.realize(x, order)
    oc, channels = int(weight.size[0]), int(x.size[1])
    taps = permute(reshape(weight, (oc, *g.kernel)), (*range(1, g.ndim + 1), 0))
    taps = ctx.realize(taps, range(g.ndim + 1))
    variables = loop_vars(g.ndim + 2)
    ranges = dict(zip(variables, result_size, strict=True))
    channel = variables[1] if oc == channels else FloorDiv(variables[1], oc // channels)
    total: Expr | None = None
    for index in _taps(g.kernel):
        element = window_element(x, channel, variables[0], variables[2:], index, g, ranges)
        term = op("mul", element, taps.at([*index, variables[1]]))
        total = term if total is None else op("add", total, term)
    assert total is not None
    identity = list(variables)
    value = reindex(Value(result_size, x.dtype, total), result_size, identity)
    return ctx.pointwise(value, order)


def _taps(kernel: Sequence[int]) -> list[tuple[int, ...]]:
    taps: list[tuple[int, ...]] = [()]
    for k in kernel:
        taps = [(*t, i) for t in taps for i in range(k)]
    return taps


def by_reduction(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, result_size: tuple[Size, ...]
) -> Value:
    """Integers: the definition, as a sum over input channels and taps."""
    if g.transposed:
        raise CannotLower(f"transposed convolution of {x.dtype}")
    nd, icg = g.ndim, int(weight.size[1])
    size = (*result_size, icg, *g.kernel)
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    n, oc, pixel = variables[0], variables[1], variables[2 : nd + 2]
    c, tap = variables[nd + 2], variables[nd + 3 :]
    channel = c
    if g.groups > 1:
        channel = FloorDiv(oc, int(weight.size[0]) // g.groups) * icg + c
    element = window_element(x, channel, n, pixel, tap, g, ranges)
    product = op("mul", element, weight.at([oc, c, *tap]))
    return ctx.reduce(Value(size, x.dtype, product), range(nd + 2, len(size)), "sum")
