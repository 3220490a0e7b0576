"""Reductions in two stages: where few results are made of many elements each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ocl_inductor.ir.expr import const, masked
from ocl_inductor.ir.index import is_static, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import highest, in_bounds, lowest
from ocl_inductor.lowering.core.values import Value, reindex

#: A result element that sums more than this is reduced in two stages, for parallelism and because
#: the error of a running float32 sum grows with its length.
MAX_SERIAL_ELEMENTS = 65536
#: Partial results that each output of a split reduction is made of.
PARTIALS = 256
#: Sums of columns of more bytes than a second-level cache go block by block; so much of one, and so
#: many rows, are a block.
BLOCK_SHARE = 1 / 8
MIN_BLOCK_ROWS = 16
#: On GPUs, of sums of columns: rows that are worth a second launch, which takes five microseconds
#: or more. A work-group that reads 32 bytes of each row is done with so many in about seven,
#: whatever the number of columns.
MIN_LONG_COLUMN = 8192
#: Work for a unit that the columns should be cut into, and the least rows of a part.
UNIT_COLUMNS = 1024
MIN_PART_ROWS, MAX_PARTS = 32, 1024

#: Partial results, and the dimensions over which they are still to be reduced.
Stage = tuple[Value, list[int]]


def identity(how: str, dtype: torch.dtype) -> float | int | bool:
    return {
        "sum": 0,
        "prod": 1,
        "max": lowest(dtype),
        "min": highest(dtype),
        "any": False,
        "all": True,
    }[how]


def first_stage(
    ctx: LoweringContext,
    x: Value,
    dims: Sequence[int],
    how: str,
    long_column: int | None = None,
) -> Stage | None:
    """The first of two stages that reduce ``dims``, or None where one stage is right.

    ``long_column``: rows that are worth a second launch where results are columns, on GPUs;
    usually ``MIN_LONG_COLUMN``.
    """
    if not all(map(is_static, x.size)):
        return None
    elements = math.prod(int(x.size[d]) for d in dims)
    outputs = math.prod(int(s) for d, s in enumerate(x.size) if d not in dims)
    order = ctx.preferred_order(x)
    inner = next((d for d in reversed(order) if not same(x.size[d], 1)), None)
    columns = inner is not None and inner not in dims
    if columns and ctx.device.profile == "simt":
        parts = (
            _column_parts(ctx, elements, outputs)
            if elements >= (long_column or MIN_LONG_COLUMN)
            else 0
        )
        return _split_columns(ctx, x, dims, order, how, parts) if parts else None
    few = elements > MAX_SERIAL_ELEMENTS and outputs < 8 * ctx.device.compute_units
    partials = PARTIALS if few else 0
    if not few and columns:
        partials = _blocks_of_rows(ctx, x, elements, outputs)
    if not partials:
        return None
    # Keep one reduced dimension for the second stage: the outermost in memory among those that
    # give enough partial results, so that the first stage reads long contiguous runs.
    order = tuple(d for d in order if d in dims)
    for d in order:
        if 16 <= int(x.size[d]) <= 16 * PARTIALS and elements >= MIN_BLOCK_ROWS * int(x.size[d]):
            return _stage(ctx, x, dims, [d], how)
    largest = max(order, key=lambda d: int(x.size[d]))
    return _split_dim(ctx, x, dims, largest, how, partials)


def _blocks_of_rows(ctx: LoweringContext, x: Value, elements: int, outputs: int) -> int:
    """How many blocks of rows to sum apart where the results are columns of a large matrix.

    A vector of columns would be read alone from every row, each of them in another page: over a
    block of rows all of its columns are read while it is in cache. 0: leave it whole.
    """
    row = outputs * x.dtype.itemsize
    cache = ctx.device.caches.l2
    length = max(MIN_BLOCK_ROWS, int(BLOCK_SHARE * cache) // row)
    if row * elements <= cache or elements < 4 * length:
        return 0
    return elements // length


def _column_parts(ctx: LoweringContext, elements: int, outputs: int) -> int:
    """How many parts of the rows to sum apart so that columns fill a GPU; 0: leave them whole."""
    columns = UNIT_COLUMNS * ctx.device.compute_units
    parts = min(columns // outputs, elements // MIN_PART_ROWS, MAX_PARTS)
    return parts if parts >= 4 else 0


def _split_columns(
    ctx: LoweringContext,
    x: Value,
    dims: Sequence[int],
    order: Sequence[int],
    how: str,
    parts: int,
) -> Stage | None:
    """Two stages with about ``parts`` partial results: of outer dimensions, or of a cut one."""
    reduced = [d for d in order if d in dims]
    best: tuple[float, list[int]] | None = None
    count = 1
    for k, d in enumerate(reduced[:-1]):
        count *= int(x.size[d])
        off = abs(math.log2(count / parts))
        if off <= 2 and (best is None or off < best[0]):
            best = off, reduced[: k + 1]
    if best is None:
        largest = max(reduced, key=lambda d: int(x.size[d]))
        return _split_dim(ctx, x, dims, largest, how, parts)
    return _stage(ctx, x, dims, best[1], how)


def _stage(
    ctx: LoweringContext, x: Value, dims: Sequence[int], second: Sequence[int], how: str
) -> Stage:
    """Reduce all of ``dims`` but those that are left for the ``second`` stage."""
    left = [d for d in range(x.ndim) if d in second or d not in dims]
    first = ctx.reduce(x, [d for d in dims if d not in second], how, x.dtype)
    return first, [left.index(d) for d in second]


def _split_dim(
    ctx: LoweringContext, x: Value, dims: Sequence[int], d: int, how: str, partials: int
) -> Stage | None:
    """Cut dimension ``d`` into chunks: ``[.., n, ..]`` becomes ``[.., chunks, length, ..]``."""
    n = int(x.size[d])
    if n < 2 * partials:
        return None
    candidates = [c for c in range(max(partials // 4, 2), partials * 4) if n % c == 0]
    chunks = min(candidates, key=lambda c: abs(c - partials), default=partials)
    length = -(-n // chunks)
    variables = loop_vars(x.ndim + 1)
    position = variables[d] * length + variables[d + 1]
    size = (*x.size[:d], chunks, length, *x.size[d + 1 :])
    index = [*variables[:d], position, *variables[d + 2 :]]
    body = reindex(x, size, index)
    guard = in_bounds(position, 0, n, body.ranges)
    if guard is not None:
        other = const(identity(how, x.dtype), x.dtype)
        body = Value(size, x.dtype, masked(guard, body.body, other))
    inner = [e + 1 if e > d else e for e in dims if e != d] + [d + 1]
    return _stage(ctx, body, [*inner, d], [d], how)
