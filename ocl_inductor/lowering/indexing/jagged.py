"""Rows of values in parts of different lengths, and the same padded to one length.

The parts lie one after another; offsets say where each begins, and where the last one ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.expr import cast, compare, index_value, logical_and, masked, op
from ocl_inductor.ir.index import Size, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import clamp, element, in_memory
from ocl_inductor.lowering.core.refused_values import refused_unless
from ocl_inductor.lowering.core.shapes import (
    cast_value,
    decide,
    full,
    position_dtype,
    reused,
    size_expr,
)
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pointwise.rows import constant
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.lowering.sort.searchsorted import bisect
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

_WIDE = torch.int64
_NOT_OFFSETS = "offsets of parts do not rise, or end after the values"
_TOO_LONG = (
    "_padded_dense_to_jagged_forward(): found batch item of another length than the padded input "
    "has room for"
)
_OTHER_END = "_padded_dense_to_jagged_forward(): final offset should match total_L value"


def _offsets(offsets: Sequence[Value]) -> Value:
    if len(offsets) != 1:
        raise CannotLower(f"{len(offsets)} jagged dimensions")
    (starts,) = offsets
    if starts.ndim != 1 or starts.dtype not in (torch.int32, torch.int64):
        raise CannotLower(f"offsets of {starts.dtype} in {starts.ndim} dimensions")
    if same(starts.size[0], 0):
        raise CannotLower("no offsets")
    return cast_value(starts, _WIDE)


@register(aten._jagged_to_padded_dense_forward.default)
def lower_jagged_to_padded(
    ctx: LoweringContext,
    values: Value,
    offsets: Sequence[Value],
    max_lengths: Sequence[Size],
    padding_value: float = 0.0,
) -> Value:
    """A part that is longer loses its end."""
    starts = _offsets(offsets)
    if len(max_lengths) != 1 or not values.ndim or same(values.size[0], 0):
        raise CannotLower("eager decides on this")
    size = (starts.size[0] - 1, max_lengths[0], *values.size[1:])
    if any(same(s, 0) for s in size):
        return full(size, 0, values.dtype)
    source, starts = in_memory(ctx, values), reused(ctx, starts)
    batch, place, *rest = loop_vars(len(size))
    begin, end = starts.at([batch]), starts.at([batch + 1])
    length = op("minimum", op("sub", end, begin), size_expr(size[1], _WIDE))
    rises = compare("ge", length, constant(0, _WIDE))
    ends = compare("le", op("add", begin, length), size_expr(values.size[0], _WIDE))
    starts_inside = compare("ge", begin, constant(0, _WIDE))
    fits = logical_and(logical_and(starts_inside, rises), ends)
    length = op("add", length, refused_unless(ctx, fits, _WIDE, _NOT_OFFSETS))
    dtype = position_dtype(*values.size[:1], *size[:2])
    at = op("add", cast(begin, dtype), index_value(place, dtype))
    row = element(source, [clamp(at, values.size[0]), *rest])
    inside = compare("lt", index_value(place, dtype), cast(length, dtype))
    body = masked(inside, row, constant(padding_value, values.dtype))
    return Value(size, values.dtype, body)


@register(aten._padded_dense_to_jagged_forward.default)
def lower_padded_to_jagged(
    ctx: LoweringContext, dense: Value, offsets: Sequence[Value], total_L: Size | None = None
) -> Value:
    """Each row finds its part by a search in the offsets."""
    starts = _offsets(offsets)
    if total_L is None:
        raise CannotLower("the offsets decide the size of its result")
    if dense.ndim < 2:
        raise CannotLower(f"padded values of {dense.ndim} dimensions")
    parts, longest = starts.size[0] - 1, dense.size[1]
    if not decide(ctx, sympy.Ge(dense.size[0], parts)):
        raise CannotLower("offsets of more parts than there are")
    size = (total_L, *dense.size[2:])
    if any(same(s, 0) for s in size):
        return full(size, 0, dense.dtype)
    if any(same(s, 0) for s in (parts, longest)):
        raise CannotLower("rows of no parts")
    source, starts = in_memory(ctx, dense), in_memory(ctx, starts)
    row, *rest = loop_vars(len(size))
    after = bisect(ctx, starts, Value(size[:1], _WIDE, index_value(row)), True, _WIDE)
    refused = _refused(ctx, starts, parts, longest, total_L)
    part = op("add", op("sub", after.body, constant(1, _WIDE)), refused.at([]))
    part = ctx.realize(Value(size[:1], _WIDE, clamp(part, parts))).at([row])
    inside = op("sub", index_value(row, _WIDE), element(starts, [part]))
    return Value(size, dense.dtype, element(source, [part, clamp(inside, longest), *rest]))


def _refused(ctx: LoweringContext, starts: Value, parts: Size, longest: Size, total: Size) -> Value:
    """A 0 to add to what the offsets give; the call raises where they do not fit."""
    (part,) = loop_vars(1)
    length = op("sub", starts.at([part + 1]), starts.at([part]))
    rises = compare("ge", length, constant(0, _WIDE))
    fits = logical_and(rises, compare("le", length, size_expr(longest, _WIDE)))
    all_fit = reduce_dims(ctx, Value((parts,), torch.bool, fits), [0], "all")
    zero = refused_unless(ctx, all_fit.body, _WIDE, _TOO_LONG)
    ends = compare("eq", starts.at([parts]), size_expr(total, _WIDE))
    return Value((), _WIDE, op("add", zero, refused_unless(ctx, ends, _WIDE, _OTHER_END)))
