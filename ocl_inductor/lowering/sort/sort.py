"""Sorting and selection along one dimension.

Kernels order *items* (see :mod:`ocl_inductor.templates.sort.ordering`), from which positions are
read; values are then gathered from the operand, so that they are the very elements. NaN is the
greatest element, as in eager, and every sort is stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar

import sympy
import torch

from ocl_inductor.ir.dtypes import REGISTER_TYPE
from ocl_inductor.ir.expr import const, op
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import element, in_memory
from ocl_inductor.lowering.core.shapes import (
    cast_value,
    decide,
    full,
    normalize_dim,
    position_dtype,
)
from ocl_inductor.lowering.core.values import ZERO, Value, permute, reindex, reshape
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.sort.ordering import (
    MERGE_RUNS,
    SELECT,
    SORT_RUNS,
    MergeParams,
    OrderParams,
    RunsParams,
    SelectParams,
    block_size,
)
from ocl_inductor.templates.spec import TemplateSpec

aten = torch.ops.aten

#: Positions share 32 bits with those of padding.
MAX_LENGTH = 1 << 30
#: Most elements that a selection keeps in a work-item's own memory; more are sorted.
MAX_SELECTED = 512
#: Elements that a work-item selects from where rows are cut into pieces.
PIECE = 16384
#: Positions of padding in a second round, above those of the first.
SECOND_PAD = 1 << 31


@dataclass(frozen=True, slots=True)
class Rows:
    """An operand with the ordered dimension last, dense in memory, and how to undo that."""

    matrix: Value  # [rows, n]
    lead: tuple[Size, ...]  # the other dimensions
    dim: int

    @property
    def length(self) -> Size:
        return self.matrix.size[1]

    def restore(self, items: Value) -> Value:
        """``[rows, m]`` with the dimensions of the operand."""
        last = len(self.lead)
        order = [*range(self.dim), last, *range(self.dim, last)]
        return permute(reshape(items, (*self.lead, items.size[1])), order)


def rows_of(ctx: LoweringContext, x: Value, dim: int) -> Rows:
    """``x`` (of one dimension or more) as a dense matrix whose rows run along ``dim``."""
    order = [d for d in range(x.ndim) if d != dim] + [dim]
    moved = ctx.realize(permute(x, order), tuple(range(x.ndim)))
    matrix = reshape(moved, (prod(moved.size[:-1]), moved.size[-1]))
    # Merged rows of a symbolic length need not be seen to be evenly spaced: that takes a copy.
    return Rows(ctx.realize(matrix, (0, 1)), moved.size[:-1], dim)


def _is_wide(dtype: torch.dtype) -> bool:
    return dtype in (torch.float64, torch.int64)


def _static_limit(ctx: LoweringContext, n: Size) -> int:
    """A length, or for a symbolic one the power of two it stays below (a guard of the graph)."""
    if is_static(n):
        return int(n)
    limit = 16
    while limit < MAX_LENGTH and not decide(ctx, sympy.Le(n, limit)):
        limit *= 2
    return limit


P = TypeVar("P", bound=OrderParams)


class _OrderGiven(TypedDict):
    """What the templates' parameters have in common."""

    rows: Size
    n: Size
    source: str
    wide: bool
    descending: bool


@dataclass(frozen=True, slots=True)
class _Order:
    """Emits the kernels for one operand."""

    ctx: LoweringContext
    dtype: torch.dtype
    descending: bool

    def given(self, source: Value, *, first: bool) -> _OrderGiven:
        """``first``: ``source`` is the operand, and not what one of the templates wrote."""
        rows, n = source.size[:2]
        return {
            "rows": rows,
            "n": n,
            "source": REGISTER_TYPE[self.dtype] if first else "items",
            "wide": _is_wide(self.dtype),
            "descending": self.descending and first,
        }

    def emit(self, spec: TemplateSpec[P], source: Value, columns: Size, params: P) -> Value:
        size = (params.rows, columns, 2) if params.wide else (params.rows, columns)
        order = tuple(range(len(size)))
        return self.ctx.template(spec, torch.int64, size, order, [source], params)

    def blocks(self, source: Value, keep: int, limit: int, first: bool) -> Value:
        """Every block sorted; its first ``keep`` items, or all of them."""
        block = block_size(self.ctx.device, _is_wide(self.dtype), limit)
        n = source.size[1]
        keep = min(keep, block)
        columns = n if keep == block else size_ceil_div(n, block) * keep
        pad = 0 if first else SECOND_PAD
        params = RunsParams(**self.given(source, first=first), block=block, keep=keep, pad=pad)
        return self.emit(SORT_RUNS, source, columns, params)

    def sorted_items(self, source: Value) -> Value:
        """All items in order."""
        n = source.size[1]
        limit = _static_limit(self.ctx, n)
        run = block_size(self.ctx.device, _is_wide(self.dtype), limit)
        items = self.blocks(source, run, limit, True)
        while run < limit:
            params = MergeParams(**self.given(items, first=False), run=run)
            items = self.emit(MERGE_RUNS, items, n, params)
            run *= 2
        return items

    def first_items(self, source: Value, keep: int) -> Value:
        """At least the first ``keep`` items in order."""
        limit = _static_limit(self.ctx, source.size[1])
        block = block_size(self.ctx.device, _is_wide(self.dtype), limit)
        if keep > MAX_SELECTED or 2 * keep > block >= limit:
            return self.sorted_items(source)
        if self.ctx.device.profile == "simt":
            if 2 * keep > block:
                return self.sorted_items(source)
            items, first = source, True
            while first or limit > keep:
                items = self.blocks(items, keep, limit, first)
                limit, first = -(-limit // block) * keep, False
            return items
        if block >= limit:
            return self.blocks(source, keep, limit, True)
        return self._select(source, keep)

    def _select(self, source: Value, keep: int) -> Value:
        rows, n = source.size[:2]
        buffer = 16
        while buffer < 2 * keep:
            buffer *= 2
        few_rows = self.ctx.hint(rows) < 2 * self.ctx.device.compute_units
        piece = PIECE if few_rows and self.ctx.hint(n) >= 2 * PIECE else n
        columns = size_ceil_div(n, PIECE) * keep if piece is PIECE else keep
        given = self.given(source, first=True)
        params = SelectParams(**given, piece=piece, keep=keep, buffer=buffer, pad=0)
        items = self.emit(SELECT, source, columns, params)
        if piece is n:
            return items
        given, piece = self.given(items, first=False), items.size[1]
        params = SelectParams(**given, piece=piece, keep=keep, buffer=buffer, pad=SECOND_PAD)
        return self.emit(SELECT, items, keep, params)


def positions(items: Value, dtype: torch.dtype) -> Value:
    """``[rows, m]`` int64 positions of items for operands of ``dtype``."""
    if _is_wide(dtype):
        rows, columns = loop_vars(2)
        return reindex(items, items.size[:2], [rows, columns, 1])
    mask = const((1 << 32) - 1, torch.int64)
    return Value(items.size, torch.int64, op("bitwise_and", items.body, mask))


def at_positions(rows: Rows, where: Value) -> Value:
    """The operand's elements at ``where`` (``[rows, m]``, from these kernels, hence in range)."""
    index = cast_value(where, position_dtype(rows.length))
    row = loop_vars(2)[0] if not same(rows.matrix.size[0], 1) else ZERO
    return Value(where.size, rows.matrix.dtype, element(rows.matrix, [row, index.body]))


def columns_of(x: Value, first: Size, count: Size) -> Value:
    """``x[:, first : first + count]``."""
    row, column = loop_vars(2)
    return reindex(x, (x.size[0], count), [row, first + column])


def check_length(n: Size) -> None:
    if is_static(n) and int(n) > MAX_LENGTH:
        raise CannotLower(f"ordering {n} elements: positions of more than 30 bits")


def is_trivial(x: Value, dim: int) -> bool:
    """Whether there is nothing to order: no dimension, no element, or one element a row."""
    return x.ndim == 0 or any(same(n, 0) for n in x.size) or same(x.size[dim], 1)


def sort_rows(ctx: LoweringContext, rows: Rows, descending: bool) -> Value:
    """``[rows, n]`` positions in sorted order."""
    check_length(rows.length)
    order = _Order(ctx, rows.matrix.dtype, descending)
    return positions(order.sorted_items(in_memory(ctx, rows.matrix)), rows.matrix.dtype)


def first_of_rows(ctx: LoweringContext, rows: Rows, count: int, descending: bool) -> Value:
    """``[rows, count]`` positions of the first ``count`` elements in sorted order."""
    check_length(rows.length)
    order = _Order(ctx, rows.matrix.dtype, descending)
    items = order.first_items(in_memory(ctx, rows.matrix), count)
    return columns_of(positions(items, rows.matrix.dtype), 0, count)


def with_positions(rows: Rows, where: Value) -> tuple[Value, Value]:
    """Values and int64 positions, in the operand's dimensions."""
    return rows.restore(at_positions(rows, where)), rows.restore(where)


def _sort(ctx: LoweringContext, x: Value, dim: int, descending: bool) -> tuple[Value, Value]:
    dim = normalize_dim(dim, x.ndim)
    if is_trivial(x, dim):
        return x, full(x.size, 0, torch.int64)
    rows = rows_of(ctx, x, dim)
    return with_positions(rows, sort_rows(ctx, rows, descending))


@register(aten.sort.default)
def lower_sort(
    ctx: LoweringContext, x: Value, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    return _sort(ctx, x, dim, descending)


@register(aten.sort.stable)
def lower_sort_stable(
    ctx: LoweringContext,
    x: Value,
    *,
    stable: bool | None = None,
    dim: int = -1,
    descending: bool = False,
) -> tuple[Value, Value]:
    return _sort(ctx, x, dim, descending)


@register(aten.topk.default)
def lower_topk(
    ctx: LoweringContext, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    if not is_static(k):
        raise CannotLower("topk with a symbolic k")
    dim = normalize_dim(dim, x.ndim)
    if x.ndim == 0 and k == 1:
        return x, full((), 0, torch.int64)
    size: Sequence[Size] = [int(k) if d == dim else n for d, n in enumerate(x.size)]
    if any(same(n, 0) for n in size):
        return full(size, 0, x.dtype), full(size, 0, torch.int64)
    if is_trivial(x, dim):
        return x, full(x.size, 0, torch.int64)
    rows = rows_of(ctx, x, dim)
    return with_positions(rows, first_of_rows(ctx, rows, int(k), largest))
