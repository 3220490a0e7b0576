"""Writes through advanced indices and masks: ``x[indices] = values`` and ``masked_scatter``."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ocl_inductor.ir.dtypes import FLOAT8, UNSIGNED
from ocl_inductor.ir.expr import Expr, cast, compare, const, op, where
from ocl_inductor.ir.index import loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import clamp, element, in_memory
from ocl_inductor.lowering.core.refused_values import refused_unless
from ocl_inductor.lowering.core.shapes import broadcast_sizes, cast_value, position_dtype, size_expr
from ocl_inductor.lowering.core.values import Value, expand, reshape
from ocl_inductor.lowering.indexing.compaction import put_in_order
from ocl_inductor.lowering.indexing.index import advanced_index
from ocl_inductor.lowering.indexing.scatter import scatter_points
from ocl_inductor.lowering.reduce.scans import scan_along
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


_TOO_FEW = "Number of elements of source < number of ones in mask"


@register(aten.masked_scatter.default)
def lower_masked_scatter(ctx: LoweringContext, x: Value, mask: Value, source: Value) -> Value:
    """The true places of ``mask`` take the elements of ``source`` in order.

    How many are true before a place is a running sum, so no size depends on data.
    """
    size = broadcast_sizes([x.size, mask.size])
    x, mask = expand(x, size), expand(mask, size)
    if any(same(n, 0) for n in size):
        return x
    if any(same(n, 0) for n in source.size):
        none = op("logical_not", cast(mask.body, torch.bool))
        new = refused_unless(ctx, none, x.dtype, _TOO_FEW)
        return Value(size, x.dtype, where(mask.body, new, x.body))
    length = prod(size)
    dtype = position_dtype(length)
    flat = reshape(mask, (length,))
    seen = scan_along(ctx, cast_value(flat, dtype), 0, "sum")
    taken = Value(seen.size, dtype, op("sub", seen.body, const(1, dtype)))
    elements = in_memory(ctx, reshape(source, (prod(source.size),)))
    place = reshape(taken, size).body
    there = compare("lt", place, size_expr(elements.size[0], place.dtype))
    enough = op("logical_or", there, op("logical_not", cast(mask.body, torch.bool)))
    place = clamp(place, elements.size[0])
    place = op("add", place, refused_unless(ctx, enough, place.dtype, _TOO_FEW))
    return Value(size, x.dtype, where(mask.body, element(elements, [place]), x.body))


# -- advanced indexing ---------------------------------------------------------------------


@register(aten.index_put.default, aten._unsafe_index_put.default)
def lower_index_put(
    ctx: LoweringContext,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
) -> Value:
    """``x[indices] = values`` or ``+=`` in a copy of ``x``."""
    if x.dtype in UNSIGNED or (accumulate and x.dtype in FLOAT8):
        raise CannotLower(f"eager's kernel does not know {x.dtype}, or rounds each sum to it")
    masks = [i for i in indices if i is not None and i.dtype is torch.bool]
    if masks:
        return _masked_put(ctx, x, indices, values, accumulate)
    if all(i is None for i in indices):
        raise CannotLower("index_put without indices")
    target = advanced_index(ctx, x, indices)
    body = cast(expand(values, target.size).body, x.dtype)
    colliding = list(range(target.lead, target.lead + target.index_ndim))
    if not any(isinstance(c, Expr) for c in target.coordinates) and prod(
        [target.size[d] for d in colliding]
    ) in (0, 1):
        colliding = []
    how = "sum" if accumulate else "set"
    return scatter_points(ctx, x, target.size, target.coordinates, body, colliding, how)


def _masked_put(
    ctx: LoweringContext,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool,
) -> Value:
    """One boolean mask: a choice at each element between the old one and a value."""
    given = [d for d, i in enumerate(indices) if i is not None]
    if len(given) != 1:
        raise CannotLower("index_put with a mask and another index")
    d = given[0]
    mask = indices[d]
    assert mask is not None
    lead = x.ndim - mask.ndim + 1 - values.ndim
    if lead < 0:
        raise CannotLower("index_put with a mask and values of more dimensions")
    values = reshape(values, (*[1] * lead, *values.size))
    if not same(values.size[d], 1):
        return put_in_order(ctx, x, d, mask, values, accumulate)
    variables = loop_vars(x.ndim)
    size = (*x.size[:d], 1, *x.size[d + mask.ndim :])
    at = [*variables[:d], 0, *variables[d + mask.ndim :]]
    new = cast(expand(values, size).at(at), x.dtype)
    if accumulate:
        new = op("add", x.body, new)
    condition = mask.at(variables[d : d + mask.ndim])
    return Value(x.size, x.dtype, where(condition, new, x.body))
