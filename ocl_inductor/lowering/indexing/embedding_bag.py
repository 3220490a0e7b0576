"""Sums, means and maxima over bags of rows of an embedding.

A bag is a run of ``indices`` that begins at an entry of ``offsets``. Where the offsets are known
to be equally spaced (bags given as rows of a matrix), a bag is a plain reduction; else a template
follows the indices of each bag (templates/embedding/bags.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import (
    Check,
    Expr,
    cast,
    compare,
    const,
    index_value,
    logical_and,
    masked,
    op,
    where,
)
from ocl_inductor.ir.index import Size, as_size, coefficients, is_static, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import (
    Coordinate,
    as_coordinate,
    check_of,
    clamp,
    element,
    in_memory,
    require_index,
)
from ocl_inductor.lowering.core.memory_order import has_order
from ocl_inductor.lowering.core.refused_values import refused_unless
from ocl_inductor.lowering.core.shapes import (
    cast_value,
    decide,
    full,
    is_known,
    lowest,
    position_dtype,
    reused,
    size_expr,
)
from ocl_inductor.lowering.core.values import Value, reindex, strided_view
from ocl_inductor.lowering.indexing.scatter import scatter_points
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.lowering.sort.searchsorted import bisect
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.templates.embedding.bags import BAGS, BagsParams

aten = torch.ops.aten

_How = Literal["sum", "max"]

SUM, MEAN, MAX = 0, 1, 2

#: Output, bag of each index, number of indices in each bag, and what a maximum came from.
Results = tuple[Value, Value, Value, Value]


@dataclass(frozen=True, slots=True)
class Bags:
    """``indices`` [n] and the bag of each: ``bag`` (int64, in ``[0, count)``)."""

    indices: Value
    bag: Value
    count: Size
    padding: int
    #: Indices of each bag where all have the same number, known without looking at the offsets.
    length: Size | None
    offsets: Value
    #: What an index that is no row of the table is reported as.
    check: Check | None = None
    #: Whether there is one more of the offsets, and whether the last bag ends there; else it ends
    #: where the indices do.
    closed: bool = False
    ends: bool = False

    @property
    def n(self) -> Size:
        return self.indices.size[0]

    def row(self, at: sympy.Expr, rows: Size) -> Coordinate:
        """Row of the table that index ``at`` names."""
        index = self.indices.at([at])
        return as_coordinate(index, rows, {}, wrap=False, check=self.check)

    def counts(self, at: sympy.Expr) -> Expr:
        """Whether index ``at`` is more than padding."""
        index = self.indices.at([at])
        return compare("ne", index, const(self.padding, index.dtype))


def bags_of(
    ctx: LoweringContext, indices: Value, offsets: Value, count: Size, padding: int
) -> Bags:
    require_index(indices), require_index(offsets)
    if indices.ndim != 1:
        raise CannotLower("bags of indices that are not a vector")
    length = _even_length(ctx, offsets, indices.size[0], count)
    indices = reused(ctx, indices)
    (v,) = loop_vars(1)
    if length is not None:
        bag = index_value(v if same(length, 1) else FloorDiv(v, length))
        return Bags(indices, Value(indices.size, torch.int64, bag), count, padding, length, offsets)
    place = Value(indices.size, offsets.dtype, cast(index_value(v), offsets.dtype))
    before = bisect(ctx, offsets, place, right=True, dtype=torch.int64)
    bag = clamp(op("sub", before.body, const(1, torch.int64)), count)
    bag_of = reused(ctx, Value(indices.size, torch.int64, bag))
    return Bags(indices, bag_of, count, padding, None, offsets)


def _even_length(ctx: LoweringContext, offsets: Value, n: Size, count: Size) -> Size | None:
    """Where the offsets are ``k * length`` as an expression (an arange), and fill ``n`` exactly."""
    body = offsets.body
    if body.op != "index" or not all(is_static(s) or is_known(ctx, s) for s in (n, count)):
        return None
    affine = coefficients(body.payload, loop_vars(1))
    if affine is None or affine[1] != 0:
        return None
    length = n if same(count, 1) else as_size(affine[0].get(loop_vars(1)[0], 0))
    even = decide(ctx, sympy.Eq(n, length * count)) and decide(ctx, sympy.Gt(length, 0))
    return length if even else None


@dataclass(frozen=True, slots=True)
class Term:
    """What index ``i`` gives to ``column`` of its bag: the table's element, or ``nothing``."""

    bags: Bags
    table: Value
    weights: Value | None
    nothing: float

    @property
    def dtype(self) -> torch.dtype:
        return accumulation_dtype(self.table.dtype)

    def at(self, i: sympy.Expr, column: sympy.Expr) -> Expr:
        rows = self.table.size[0]
        value = cast(element(self.table, [self.bags.row(i, rows), column]), self.dtype)
        if self.weights is not None:
            value = op("mul", value, cast(self.weights.at([i]), self.dtype))
        if self.bags.padding < 0:
            return value
        return where(self.bags.counts(i), value, const(self.nothing, self.dtype))


def _per_bag(ctx: LoweringContext, bags: Bags, width: Size, term: Term, how: _How) -> Value:
    """``[bags, width]``: ``how`` over ``term(index, column)`` of each bag's indices."""
    if bags.length is not None:
        bag, column, i = loop_vars(3)
        lattice = (bags.count, width, bags.length)
        body = term.at(bag * bags.length + i, column)
        terms = reindex(Value(lattice, term.dtype, body), lattice, loop_vars(3))
        return reduce_dims(ctx, terms, [2], how)
    return _by_template(ctx, bags, width, term, how)


def _by_template(ctx: LoweringContext, bags: Bags, width: Size, term: Term, how: _How) -> Value:
    """``[bags, width]`` of bags at any offsets."""
    table = term.table
    view = strided_view(table)
    if view is None or not same(view.stride[1], 1):
        table = ctx.realize(table, (0, 1))
        view = strided_view(table)
    assert view is not None
    operands = [table, _vector(ctx, bags.indices), _vector(ctx, bags.offsets)]
    if term.weights is not None:
        operands.append(_vector(ctx, cast_value(term.weights, term.dtype)))
    params = BagsParams(
        bags=bags.count, n=bags.n, rows=table.size[0], width=width, offset=view.offset,
        row_stride=view.stride[0], how=how, padding=bags.padding,
        weighted=term.weights is not None, acc=accumulator(term.dtype), check=bags.check,
        closed=bags.closed, ends=bags.ends, **_checks_of_offsets(ctx),
    )  # fmt: skip
    return ctx.template(BAGS, term.dtype, (bags.count, width), (0, 1), operands, params)


_NOT_FROM_ZERO = (
    "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
    "position 0"
)
_OUT_OF_ORDER = (
    "offsets[-1] can not be greater than input's length, nor an offset less than the one before it"
)


class _Checks(TypedDict):
    from_zero: Check | None
    in_order: Check | None


def _checks_of_offsets(ctx: LoweringContext) -> _Checks:
    """Eager looks at the first and the last offset; others out of order make it read elsewhere,
    or are refused, as the dtype and its threads have it. Here they are refused always."""
    if not ctx.settings.check_indices:
        return {"from_zero": None, "in_order": None}
    return {
        "from_zero": ctx.requirement(_NOT_FROM_ZERO),
        "in_order": ctx.requirement(_OUT_OF_ORDER),
    }


def last_bag_ends(dtype: torch.dtype, mode: int, padding: int) -> bool:
    """Whether indices beyond the last of the offsets, where these include it, are in no bag.

    They are in the last one where eager goes by the bag of each index. Of a mean it still counts
    them.
    """
    return mode != MAX and padding < 0 and dtype is not torch.float64


def _vector(ctx: LoweringContext, value: Value) -> Value:
    """``value`` as a buffer of its own, from its first element on."""
    return value if has_order(value, (0,)) else ctx.pointwise(value, (0,))


def sizes_of_bags(ctx: LoweringContext, bags: Bags) -> Value:
    """Indices in each bag without padding, int64."""
    if bags.length is not None and bags.padding < 0:
        length = size_expr(bags.length, torch.int64)
        return Value((bags.count,), torch.int64, length)
    (i,) = loop_vars(1)
    one, zero = const(1, torch.int64), const(0, torch.int64)
    body = one if bags.padding < 0 else where(bags.counts(i), one, zero)
    return scatter_points(
        ctx, full((bags.count,), 0, torch.int64), (bags.n,), [bags.bag.body], body, [0], "sum"
    )


@register(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def lower_embedding_bag(
    ctx: LoweringContext,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Results:
    """``weight`` [rows, width], ``indices`` [n], ``offsets`` [bags] (or one more, the end).

    A NaN wins a maximum; eager lets it win only at the beginning of a bag.
    """
    if sparse and ctx.fx_node is not None and ctx.fx_node.target is aten._embedding_bag.default:
        raise CannotLower("sparse gradients")  # a forward pass without gradients does not mind
    meta = ctx.fx_node.meta["val"] if ctx.fx_node is not None else None
    if meta is None or not weight.dtype.is_floating_point:
        raise CannotLower(f"bags of {weight.dtype}")
    count = as_size(offsets.size[0] - 1) if include_last_offset else offsets.size[0]
    width, kept = weight.size[1], offsets.dtype
    empty = same(count, 0) or same(indices.size[0], 0) or same(width, 0)
    if empty:
        return _nothing_in_bags(ctx, meta, weight.dtype, offsets, indices.size[0])
    if same(weight.size[0], 0):
        raise CannotLower("an index into a dimension of size 0")
    bags = bags_of(ctx, indices, beginnings(offsets, count), count, padding_idx)
    check = check_of(ctx, indices.body, weight.size[0], indices.ranges, 0, wrap=False)
    bags = dataclasses.replace(bags, check=check)
    if include_last_offset:
        ends = last_bag_ends(weight.dtype, mode, padding_idx)
        bags = dataclasses.replace(bags, offsets=offsets, closed=True, ends=ends)
    table = in_memory(ctx, weight)
    nothing = lowest(weight.dtype) if mode == MAX else 0
    term = Term(bags, table, per_sample_weights, float(nothing))
    total = _per_bag(ctx, bags, width, term, "max" if mode == MAX else "sum")
    sizes = reused(ctx, sizes_of_bags(ctx, bags))
    row = loop_vars(2)[0]
    size = sizes.at([row])
    zero, filled = const(0, term.dtype), compare("gt", size, const(0, torch.int64))
    chosen = None
    if mode == MEAN:
        count_of = cast(op("maximum", size, const(1, torch.int64)), term.dtype)
        total = Value(total.size, term.dtype, op("div", total.body, count_of))
    elif mode == MAX:
        total = ctx.realize(total)
        chosen = _first_of_maximum(ctx, bags, term, total)
        total = Value(total.size, term.dtype, where(filled, total.body, zero))
    result = cast_value(total, weight.dtype)
    shapes = [tuple(as_size(s) for s in m.shape) for m in meta]
    return (
        result,
        _fitted(bags.bag, shapes[1], kept),
        _fitted(sizes, shapes[2], kept),
        _fitted(sizes if chosen is None else chosen, shapes[3], kept),
    )


def beginnings(offsets: Value, count: Size) -> Value:
    """The beginnings of bags, without the end of the last."""
    return reindex(offsets, (count,), loop_vars(1))


def _nothing_in_bags(
    ctx: LoweringContext,
    meta: Sequence[torch.Tensor],
    dtype: torch.dtype,
    offsets: Value,
    n: Size,
) -> Results:
    sizes = [tuple(as_size(s) for s in m.shape) for m in meta]
    rest = [full(s, 0, offsets.dtype) for s in sizes[1:]]
    nothing = full(sizes[0], 0, dtype)
    if same(n, 0) and ctx.settings.check_indices and not any(same(s, 0) for s in sizes[0]):
        start = offsets.at(loop_vars(2)[:1])
        at_zero = compare("eq", start, const(0, start.dtype))
        nothing = Value(sizes[0], dtype, refused_unless(ctx, at_zero, dtype, _OUT_OF_ORDER))
    return nothing, rest[0], rest[1], rest[2]


def _fitted(value: Value, size: Sequence[Size], dtype: torch.dtype) -> Value:
    """What eager returns besides the result has sizes of its own in some cases."""
    if len(size) == value.ndim and all(map(same, size, value.size)):
        return cast_value(value, dtype)
    if len(size) == 1 and value.ndim == 1 and not same(size[0], 0):  # the end's entry as well
        (v,) = loop_vars(1)
        inside = compare("lt", index_value(v), size_expr(value.size[0]))
        body = masked(inside, value.at([v]), const(0, value.dtype))
        return cast_value(Value(tuple(size), value.dtype, body), dtype)
    return full(size, 0, dtype)


def _first_of_maximum(ctx: LoweringContext, bags: Bags, term: Term, total: Value) -> Value:
    """``[bags, width]`` int64: the row that each maximum came from, the first of equal ones."""
    n = bags.n
    dtype = position_dtype(n)
    i, column = loop_vars(2)
    row = cast(bags.bag.at([i]), torch.int64)
    value = term.at(i, column)
    top = element(total, [clamp(row, bags.count), column])
    hit = op("logical_or", compare("eq", value, top), compare("ne", value, value))
    if bags.padding >= 0:
        hit = logical_and(hit, bags.counts(i))
    none = size_expr(n, dtype)
    first = scatter_points(
        ctx,
        Value(total.size, dtype, none),
        (n, total.size[1]),
        [row, column],
        where(hit, index_value(i, dtype), none),
        [0],
        "min",
    )
    rows = in_memory(ctx, bags.indices)
    found = cast(element(rows, [clamp(first.body, n)]), torch.int64)
    missing = compare("ge", first.body, none)
    return Value(total.size, torch.int64, where(missing, const(0, torch.int64), found))
