"""Reads at computed positions: embedding, gather, advanced indexing, take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ocl_inductor.ir.expr import Expr, cast, compare, index_value
from ocl_inductor.ir.index import Size, delinearize, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import (
    Coordinate,
    as_coordinate,
    element,
    in_memory,
    require_index,
    users_index,
)
from ocl_inductor.lowering.core.shapes import broadcast_sizes, full, normalize_dim, position_dtype
from ocl_inductor.lowering.core.values import ZERO, Value, reshape
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


@register(aten.embedding.default)
def lower_embedding(
    ctx: LoweringContext,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Rows of ``weight``; the other arguments only concern the gradient."""
    size = (*indices.size, *weight.size[1:])
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    index = require_index(indices).at(variables[: indices.ndim])
    row = users_index(ctx, index, weight.size[0], ranges, 0, wrap=False)
    table = in_memory(ctx, weight)
    return Value(size, weight.dtype, element(table, [row, *variables[indices.ndim :]]))


@register(aten.index_select.default)
def lower_index_select(ctx: LoweringContext, x: Value, dim: int, index: Value) -> Value:
    if index.dtype not in (torch.int32, torch.int64):
        raise CannotLower(f"eager does not select by {index.dtype}")
    if index.ndim == 0:
        index = reshape(index, (1,))
    if x.ndim == 0:
        if not same(index.size[0], 1):
            raise CannotLower("eager selects one element of a scalar, no more")
        return reshape(lower_index_select(ctx, reshape(x, (1,)), 0, index), ())
    dim = normalize_dim(dim, x.ndim)
    size = (*x.size[:dim], index.size[0], *x.size[dim + 1 :])
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    position = users_index(
        ctx, require_index(index).at([variables[dim]]), x.size[dim], ranges, dim, wrap=False
    )
    coordinates: list[Coordinate] = list(variables)
    coordinates[dim] = position
    if isinstance(position, Expr):
        x = in_memory(ctx, x)
    return Value(size, x.dtype, element(x, coordinates))


@register(aten.gather.default)
def lower_gather(
    ctx: LoweringContext, x: Value, dim: int, index: Value, *, sparse_grad: bool = False
) -> Value:
    if any(same(n, 0) for n in index.size):  # then its rank may differ from x's
        return full(index.size, 0, x.dtype)
    if x.ndim == 0:
        x = reshape(x, (1,))
    if index.ndim == 0:
        return reshape(lower_index_select(ctx, x, 0, index), ())
    dim = normalize_dim(dim, x.ndim)
    variables = loop_vars(index.ndim)
    position = users_index(
        ctx, require_index(index).body, x.size[dim], index.ranges, dim, wrap=False
    )
    coordinates: list[Coordinate] = list(variables)
    coordinates[dim] = position
    return Value(index.size, x.dtype, element(in_memory(ctx, x), coordinates))


@dataclass(frozen=True, slots=True)
class AdvancedIndex:
    """Where each element of ``x[indices]`` comes from.

    ``size``: of the result. ``coordinates``: one for each dimension of ``x``, over the result's
    variables. ``lead``: where in the result the broadcast index dimensions stand, and
    ``index_ndim`` how many they are.
    """

    size: tuple[Size, ...]
    coordinates: list[Coordinate]
    lead: int
    index_ndim: int


def advanced_index(
    ctx: LoweringContext, x: Value, indices: Sequence[Value | None]
) -> AdvancedIndex:
    """NumPy's rule: index dimensions replace adjacent indexed ones in place, and come first
    where the indexed dimensions are not adjacent.

    The ``_unsafe`` operators take indices that are known to be in range, or whose elements are not
    used where they are not: those are not reported.
    """
    given = [d for d, i in enumerate(indices) if i is not None]
    tensors = [require_index(i) for i in indices if i is not None]
    shape = broadcast_sizes([i.size for i in tensors])
    adjacent = given == list(range(given[0], given[0] + len(given)))
    rest = [d for d in range(x.ndim) if d not in given]
    before = [d for d in rest if d < given[0]] if adjacent else []
    after = [d for d in rest if d not in before]
    size = (*(x.size[d] for d in before), *shape, *(x.size[d] for d in after))
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    lead = len(before)
    coordinates: list[Coordinate] = [ZERO] * x.ndim
    for v, d in zip(variables[:lead], before, strict=True):
        coordinates[d] = v
    for v, d in zip(variables[lead + len(shape) :], after, strict=True):
        coordinates[d] = v
    own = variables[lead : lead + len(shape)]
    trusted = any("_unsafe" in name for name in ctx.origin.operators)
    for d, index in zip(given, tensors, strict=True):
        at = own[len(shape) - index.ndim :]
        at = [ZERO if same(n, 1) else v for v, n in zip(at, index.size, strict=True)]
        if trusted:
            coordinates[d] = as_coordinate(index.at(at), x.size[d], ranges)
        else:
            coordinates[d] = users_index(ctx, index.at(at), x.size[d], ranges, d)
    return AdvancedIndex(size, coordinates, lead, len(shape))


@register(aten.take.default)
def lower_take(ctx: LoweringContext, x: Value, index: Value) -> Value:
    """Elements of the flattened tensor; negative positions count from the end."""
    position = users_index(ctx, require_index(index).body, prod(x.size), index.ranges, None)
    if not isinstance(position, Expr):
        return Value(index.size, x.dtype, x.at(delinearize(position, x.size)))
    flat = in_memory(ctx, reshape(x, (prod(x.size),)))  # a copy if the elements lie otherwise
    return Value(index.size, x.dtype, element(flat, [position]))


@register(aten.one_hot.default)
def lower_one_hot(ctx: LoweringContext, x: Value, num_classes: int = -1) -> Value:
    if num_classes < 0:
        raise CannotLower("one_hot without num_classes: the size depends on data")
    size = (*x.size, num_classes)
    variables = loop_vars(len(size))
    # One out of range, where that is not checked, must not become a hit when it is narrowed.
    ranges = dict(zip(variables, size, strict=True))
    dtype = position_dtype(num_classes)
    of = users_index(ctx, x.at(variables[:-1]), num_classes, ranges, None, wrap=False)
    hit = compare(
        "eq",
        of if isinstance(of, Expr) else index_value(of, dtype),
        index_value(variables[-1], dtype),
    )
    return Value(size, torch.int64, cast(hit, torch.int64))
