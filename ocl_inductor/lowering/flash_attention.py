"""When and how attention goes through one kernel (templates/attention.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from ocl_inductor.ir.expr import const, where
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.matmul import accumulator, compute_dtype, without_broadcast
from ocl_inductor.lowering.shapes import cast_value, full
from ocl_inductor.lowering.values import (
    Value,
    expand,
    reindex,
    strided_view,
)
from ocl_inductor.templates.blocking import choose_query_vectors

#: A lane is a query: with fewer of them most lanes would idle.
_MIN_QUERIES = 4
#: Queries, a block's scores and results of a work-item must stay in a second level cache.
_MAX_WIDTH = 512


@dataclass(frozen=True, slots=True)
class _Operand:
    """A realized operand with a stride for each dimension, 0 where it does not depend on one."""

    value: Value
    strides: tuple[Size, ...]
    offset: Size


def flash_attention(
    ctx: LoweringContext,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    is_causal: bool,
    scale: float | None,
    *,
    logsumexp: bool,
    empty_is_nan: bool = False,
) -> tuple[Value, Value] | None:
    """The output (\\*batch, m, width), and the logarithm of each row's sum of exponentials.

    ``query``, ``key`` and ``value`` have equal batch dimensions; ``mask`` broadcasts to
    (\\*batch, m, n), a bool one keeps where it is True. A row that sees nothing is zero, or NaN if
    ``empty_is_nan``. Without ``logsumexp`` the second result,
    which nobody reads then, is zeros. Both have the compute dtype. None: the kernel does not suit.
    """
    *batch, m, width = query.size
    n, v_width = key.size[-2], value.size[-1]
    if (
        ctx.device.profile != "vector"
        or not (is_static(width) and is_static(v_width))
        or max(int(width), int(v_width)) > _MAX_WIDTH
        or ctx.hint(m) < _MIN_QUERIES
        or not batch
    ):
        return None
    dtype = compute_dtype(query.dtype)
    operands = [_operand(ctx, cast_value(v, dtype)) for v in (query, key, value)]
    kind = ""
    if mask is not None:
        kind, additive = _mask(ctx, mask, (*batch, m, n), dtype)
        operands.append(additive)
    acc = accumulator(dtype)
    lanes, vectors = choose_query_vectors(ctx.device, acc, ctx.hint(m), ctx.hint(prod(batch)))
    order = row_order(ctx, query)
    columns = int(v_width) + logsumexp
    params: dict[str, Any] = {}
    for name, operand in zip(("q", "k", "v", "mask"), operands, strict=False):
        params |= {f"{name}_strides": operand.strides, f"{name}_offset": operand.offset}
    out = ctx.template(
        "attention",
        dtype,
        (*batch, m, columns),
        (*order, len(batch) + 1),
        [operand.value for operand in operands],
        m=m,
        n=n,
        width=int(width),
        v_width=int(v_width),
        batch=tuple(batch),
        out_order=order,
        mask=kind,
        causal=is_causal,
        scale=1.0 / math.sqrt(int(width)) if scale is None else float(scale),
        logsumexp=logsumexp,
        empty_is_nan=empty_is_nan,
        lanes=lanes,
        nv=vectors,
        acc=acc,
        **params,
    )
    if not logsumexp:
        return out, full((*batch, m), 0, dtype)
    rows = list(loop_vars(out.ndim))[:-1]
    rest = reindex(out, (*batch, m), [*rows, int(v_width)])
    return reindex(out, (*batch, m, v_width), loop_vars(out.ndim)), rest


def row_order(ctx: LoweringContext, query: Value) -> tuple[int, ...]:
    """Memory order of (\\*batch, rows) that follows the query's, as eager's result does."""
    view = strided_view(query)
    if view is None:
        return tuple(d for d in ctx.preferred_order(query) if d < query.ndim - 1)
    return tuple(sorted(range(query.ndim - 1), key=lambda d: -ctx.hint(view.stride[d])))


def _operand(ctx: LoweringContext, value: Value, order: tuple[int, ...] | None = None) -> _Operand:
    """``value`` in memory, once for the dimensions that it does not depend on.

    ``order``: the memory order for a value that has to be computed.
    """
    once, free = without_broadcast(value, range(value.ndim))
    if strided_view(once) is None:
        once = ctx.realize(once, order)
    view = strided_view(once)
    assert view is not None
    strides = tuple(0 if f else s for f, s in zip(free, view.stride, strict=True))
    return _Operand(once, strides, view.offset)


def _mask(
    ctx: LoweringContext, mask: Value, size: tuple[Size, ...], dtype: torch.dtype
) -> tuple[str, _Operand]:
    """The mask as numbers to add, and how lanes read it."""
    mask = expand(mask, size)
    if mask.dtype is torch.bool:
        body = where(mask.body, const(0.0, dtype), const(-math.inf, dtype))
        mask = Value(size, dtype, body)
    else:
        mask = cast_value(mask, dtype)
    rows, columns = len(size) - 2, len(size) - 1
    # Computed masks lie with the queries adjacent, as the lanes read them.
    operand = _operand(ctx, mask, (*range(rows), columns, rows))
    stride = operand.strides[rows]
    kind = "row" if same(stride, 0) else ("lanes" if same(stride, 1) else "any")
    return kind, operand
