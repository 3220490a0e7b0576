"""Gradient of a depthwise convolution's weight: a sum of products for each tap and channel."""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy

from ocl_inductor.ir.expr import compare, const, index_value, masked, op
from ocl_inductor.ir.index import Size, loop_vars
from ocl_inductor.lowering.conv.expressions import window_element
from ocl_inductor.lowering.conv.geometry import Geometry
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, permute, reindex, reshape
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.lowering.reduce.two_stages import first_stage

#: Sums of as many taps are registers of one work-item on a GPU.
_MAX_TAPS_TOGETHER = 9
#: Windows from which on these are summed in two stages: few work-items make a group, as the sums of
#: each have a place in local memory.
_MIN_WINDOWS = 512


def depthwise_weight_gradient(
    ctx: LoweringContext, coarse: Value, fine: Value, size: tuple[Size, ...], g: Geometry
) -> Value:
    """One channel against one; see weight_gradient.py."""
    nd, taps = g.ndim, math.prod(g.kernel)
    if ctx.device.profile == "simt" and 1 < taps <= _MAX_TAPS_TOGETHER:
        sums = _taps_together(ctx, coarse, fine, g)
        return reshape(permute(sums, (1, 0)), size)
    lattice = (*g.kernel, size[0], coarse.size[0], *coarse.size[2:])
    v = loop_vars(len(lattice))
    products = _products(coarse, fine, lattice, v[:nd], v[nd:], g)
    total = reduce_dims(ctx, products, range(nd + 1, len(lattice)), "sum")
    return reshape(permute(total, (nd, *range(nd))), size)


def _products(
    coarse: Value,
    fine: Value,
    lattice: tuple[Size, ...],
    tap: Sequence[sympy.Expr | int],
    over: Sequence[sympy.Symbol],
    g: Geometry,
) -> Value:
    """Under ``tap``, by the coordinates ``over`` (channel, n, \\*window) of ``lattice``."""
    channel, n, window = over[0], over[1], over[2:]
    v = loop_vars(len(lattice))
    ranges = dict(zip(v, lattice, strict=True))
    element = window_element(fine, channel, n, window, tap, g, ranges)
    product = op("mul", coarse.at([n, channel, *window]), element)
    return reindex(Value(lattice, fine.dtype, product), lattice, list(v))


def _taps_together(ctx: LoweringContext, coarse: Value, fine: Value, g: Geometry) -> Value:
    """(tap, channel), each tap by a loop of its own: they read the same windows, so they become one
    kernel, which reads each window once."""
    lattice = (coarse.size[1], coarse.size[0], *coarse.size[2:])
    over = loop_vars(len(lattice))
    dims = list(range(1, len(lattice)))
    sums, left = [], dims
    for k in range(math.prod(g.kernel)):
        products = _products(coarse, fine, lattice, _position(k, g.kernel), over, g)
        stage = first_stage(ctx, products, dims, "sum", _MIN_WINDOWS)
        if stage is None:
            left = []
            sums.append(reduce_dims(ctx, products, dims, "sum"))
        else:
            left = stage[1]
            sums.append(stage[0])
    together = _stacked(sums)
    return reduce_dims(ctx, together, [d + 1 for d in left], "sum") if left else together


def _position(k: int, kernel: Sequence[int]) -> list[int]:
    """Coordinates of tap number ``k``."""
    found = []
    for n in reversed(kernel):
        found.append(k % n)
        k //= n
    return found[::-1]


def _stacked(parts: Sequence[Value]) -> Value:
    """Values of one size along a new first dimension."""
    size = (len(parts), *parts[0].size)
    number, *v = loop_vars(len(size))
    which, body = index_value(number), parts[-1].at(v)
    for k in range(len(parts) - 2, -1, -1):
        body = masked(compare("eq", which, const(k, which.dtype)), parts[k].at(v), body)
    return reindex(Value(size, parts[0].dtype, body), size, [number, *v])
