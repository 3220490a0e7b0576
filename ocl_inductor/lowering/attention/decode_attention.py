"""Attention of a few queries over many keys, as in decoding (decode_attention.py)."""

from __future__ import annotations

import math

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import compare, const, op, where
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.attention.operands import (
    additive_mask,
    operand_in_place,
    row_order,
    with_logsumexp,
)
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.matmul.matmul import binary, compute_dtype
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.templates.attention.decode_attention import (
    FEW_QUERIES,
    MAX_ROWS,
    DecodeParams,
)
from ocl_inductor.templates.blocking import ceil_div, lanes_for

#: With more queries a lane for each is better (templates/attention/attention.py).
_MAX_QUERIES = 3
#: Results of all rows stay in a first level cache.
_MAX_WIDTH = 512
#: Keys for which a piece of its own pays: less than a tenth of the time goes to putting together.
_MIN_PIECE = 256
#: Work-items for each compute unit from which they share out evenly.
_ITEMS_PER_UNIT = 4


def decode_attention(
    ctx: LoweringContext, a: Attention, *, logsumexp: bool
) -> tuple[Value, Value] | Declined:
    """As `flash_attention`, for few queries."""
    batch, m, n, width, v_width = a.batch, a.m, a.n, a.width, a.v_width
    if ctx.device.profile != "vector":
        return Declined("it is for CPUs")
    if not all(map(is_static, (m, width, v_width))):
        return Declined("the numbers of queries and columns are not known")
    dtype = compute_dtype(a.query.dtype)
    acc = accumulator(dtype)
    narrow, wide = sorted((int(width), int(v_width)))
    lanes = lanes_for(ctx.device, acc, narrow)
    if int(m) > _MAX_QUERIES:
        return Declined(f"{m} queries are more than {_MAX_QUERIES}")
    if wide > _MAX_WIDTH or narrow < lanes:
        return Declined(f"rows of {narrow} to {wide}: below a vector, or above {_MAX_WIDTH}")
    q, k, v = (operand_in_place(ctx, x) for x in (a.query, a.key, a.value))
    if not (same(k.strides[-1], 1) and same(v.strides[-1], 1)):
        return Declined("keys or values have no unit stride along their columns")
    shared = tuple(
        d
        for d, s in enumerate(batch)
        if is_static(s) and same(k.strides[d], 0) and same(v.strides[d], 0)
    )
    if int(prod([m, *(batch[d] for d in shared)])) > MAX_ROWS:
        return Declined(f"more than {MAX_ROWS} rows share keys and values")
    operands = [q, k, v]
    if a.mask is not None:
        operands.append(additive_mask(ctx, a.mask, (*batch, m, n), dtype, rows_adjacent=False))
    heads = ctx.hint(prod([s for d, s in enumerate(batch) if d not in shared]))
    splits = choose_splits(ctx.device, heads, ctx.hint(n))
    order = row_order(ctx, a.query)
    params = DecodeParams(
        m=int(m), n=n, width=int(width), v_width=int(v_width),
        batch=batch, shared=shared, out_order=order,
        q_strides=q.strides, q_offset=q.offset,
        k_strides=k.strides[:-1], k_offset=k.offset,
        v_strides=v.strides[:-1], v_offset=v.offset,
        mask_strides=operands[3].strides if a.mask is not None else (),
        mask_offset=operands[3].offset if a.mask is not None else 0,
        kv_bytes=a.key.dtype.itemsize,
        masked=a.mask is not None, causal=a.causal,
        scale=a.factor(),
        logsumexp=logsumexp and splits == 1, empty_is_nan=a.empty_is_nan,
        splits=splits, lanes=lanes, acc=acc,
    )  # fmt: skip
    values = [x.value for x in operands]
    if splits == 1:
        size = (*batch, m, int(v_width) + logsumexp)
        out = ctx.template(FEW_QUERIES, dtype, size, (*order, len(batch) + 1), values, params)
        return with_logsumexp(out, logsumexp)
    kept = [d for d in range(len(batch)) if d not in shared]
    rows = int(prod([m, *(batch[d] for d in shared)]))
    size = (*(batch[d] for d in kept), splits, rows, int(v_width) + 2)
    parts = ctx.template(FEW_QUERIES, dtype, size, tuple(range(len(size))), values, params)
    # Seen with the dimensions of the query: (splits, *batch, m, column).
    coordinates = loop_vars(len(batch) + 3)
    row: Size = 0
    for d in shared:
        row = row * int(batch[d]) + coordinates[1 + d]
    row = row * int(m) + coordinates[-2]
    index = [*(coordinates[1 + d] for d in kept), coordinates[0], row, coordinates[-1]]
    parts = reindex(parts, (splits, *batch, m, int(v_width) + 2), index)
    return put_together(ctx, parts, a.empty_is_nan)


def choose_splits(device: DeviceInfo, heads: int, keys: int) -> int:
    """Pieces of ``keys`` for each of ``heads``: as few as keep all compute units busy."""
    units = device.compute_units
    most = max(1, keys // _MIN_PIECE)
    for splits in range(1, most + 1):
        items = heads * splits
        if items >= _ITEMS_PER_UNIT * units or items % units == 0:
            return splits
    return min(most, ceil_div(_ITEMS_PER_UNIT * units, heads))


def put_together(ctx: LoweringContext, parts: Value, empty_is_nan: bool) -> tuple[Value, Value]:
    """Output and logarithms of sums from pieces (splits, \\*batch, m, v_width + 2).

    A piece's last two columns are its largest score and its sum of exponentials relative to that.
    """
    splits, *rows, columns = parts.size
    coordinates = loop_vars(parts.ndim)
    v_width = int(columns) - 2

    def column(number: int) -> Value:
        return reindex(parts, (splits, *rows), [*coordinates[:-1], number])

    tops = column(v_width)
    top = ctx.reduce(tops, [0], "max")
    empty = compare("eq", top.body, const(-math.inf, top.dtype))
    shift = Value(top.size, top.dtype, where(empty, const(0, top.dtype), top.body))
    weights = binary("sub", tops, shift)
    weights = Value(weights.size, weights.dtype, op("exp", weights.body))
    total = ctx.reduce(binary("mul", weights, column(v_width + 1)), [0], "sum")
    wide = reindex(weights, (*weights.size, 1), coordinates[:-1])
    values = reindex(parts, (splits, *rows, v_width), coordinates)
    out = ctx.reduce(binary("mul", values, wide), [0], "sum")
    nothing = compare("eq", total.body, const(0, total.dtype))
    divisor = Value(total.size, total.dtype, where(nothing, const(1, total.dtype), total.body))
    sums = binary("add", shift, Value(total.size, total.dtype, op("log", divisor.body)))
    by = total if empty_is_nan else divisor
    by = reindex(by, (*rows, 1), loop_vars(len(rows) + 1)[:-1])
    return binary("div", out, by), sums
