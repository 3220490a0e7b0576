"""When and how attention goes through one kernel (templates/attention/attention.py)."""

from __future__ import annotations

from functools import partial
from typing import Any

from ocl_inductor.ir.index import is_static, prod, same
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.attention.decode_attention import decode_attention
from ocl_inductor.lowering.attention.matrix_attention import blocks_for_unit
from ocl_inductor.lowering.attention.operands import (
    additive_mask,
    operand_in_place,
    row_order,
    with_logsumexp,
)
from ocl_inductor.lowering.core.choose import Declined, Implementation, choose
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.matmul.matmul import compute_dtype
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.templates.attention.attention import choose_group
from ocl_inductor.templates.blocking import choose_query_vectors

#: A lane is a query: with fewer of them most lanes would idle.
_MIN_QUERIES = 4
#: Queries, a block's scores and results of a work-item must stay in a second level cache.
_MAX_WIDTH = 512


#: Output, and the logarithm of each row's sum of exponentials.
Attended = tuple[Value, Value]


def flash_attention(ctx: LoweringContext, a: Attention, *, logsumexp: bool) -> Attended | None:
    """The output (\\*batch, m, v_width), and the logarithm of each row's sum of exponentials.

    Without ``logsumexp`` the second result, which is unused then, is zeros. Both have the
    compute dtype. None: the kernel does not suit.
    """
    ways: tuple[Implementation[Attention, Attended], ...] = (
        Implementation("decode_attention", partial(decode_attention, logsumexp=logsumexp)),
        Implementation("matrix_attention", partial(_by_matrix_unit, logsumexp=logsumexp)),
        Implementation("attention", partial(_by_tiles, logsumexp=logsumexp)),
    )
    return choose(ctx, "attention", a, ways, otherwise="products and a softmax")


def _misfit(ctx: LoweringContext, a: Attention) -> Declined | None:
    """Why neither of the kernels for many queries suits."""
    widths = (a.width, a.v_width)
    if not all(map(is_static, widths)) or max(map(int, widths)) > _MAX_WIDTH:
        return Declined(f"rows of {a.width} and {a.v_width}: not known, or above {_MAX_WIDTH}")
    if ctx.hint(a.m) < _MIN_QUERIES or not a.batch:
        return Declined(f"{a.m} queries are fewer than {_MIN_QUERIES}, or there is no batch")
    return None


def _by_matrix_unit(ctx: LoweringContext, a: Attention, *, logsumexp: bool) -> Attended | Declined:
    acc = accumulator(compute_dtype(a.query.dtype))
    if misfit := _misfit(ctx, a):
        return misfit
    high = 0 if ctx.device.profile == "simt" else blocks_for_unit(ctx, acc, a)
    if not high:
        return Declined("the device has no matrix unit for this dtype, or vectors are faster")
    return _by_kernel(ctx, a, "matrix_attention", {"mb": high}, logsumexp)


def _by_tiles(ctx: LoweringContext, a: Attention, *, logsumexp: bool) -> Attended | Declined:
    acc = accumulator(compute_dtype(a.query.dtype))
    if misfit := _misfit(ctx, a):
        return misfit
    params: dict[str, Any]
    if ctx.device.profile == "simt":
        group = choose_group(ctx.device, acc, ctx.hint(a.m), int(a.width), int(a.v_width))
        if group is None:
            return Declined("its tiles do not fit into local memory")
        params = dict(group)
    else:
        heads = ctx.hint(prod(a.batch))
        lanes, vectors = choose_query_vectors(ctx.device, acc, ctx.hint(a.m), heads)
        params = {"lanes": lanes, "nv": vectors}
    return _by_kernel(ctx, a, "attention", params, logsumexp)


def _by_kernel(
    ctx: LoweringContext, a: Attention, spec: str, params: dict[str, Any], logsumexp: bool
) -> Attended:
    """The template ``spec`` with ``params`` and what both have in common."""
    batch, m, n, width, v_width = a.batch, a.m, a.n, a.width, a.v_width
    dtype = compute_dtype(a.query.dtype)
    acc = accumulator(dtype)
    wide = a.cast(dtype)
    operands = [operand_in_place(ctx, v) for v in (wide.query, wide.key, wide.value)]
    kind = ""
    if a.mask is not None:
        additive = additive_mask(ctx, a.mask, (*batch, m, n), dtype, rows_adjacent=True)
        stride = additive.strides[len(batch)]
        kind = "row" if same(stride, 0) else ("lanes" if same(stride, 1) else "any")
        operands.append(additive)
    order = row_order(ctx, a.query)
    columns = int(v_width) + logsumexp
    for name, operand in zip(("q", "k", "v", "mask"), operands, strict=False):
        params |= {f"{name}_strides": operand.strides, f"{name}_offset": operand.offset}
    out = ctx.template(
        spec,
        dtype,
        (*batch, m, columns),
        (*order, len(batch) + 1),
        [operand.value for operand in operands],
        m=m,
        n=n,
        width=int(width),
        v_width=int(v_width),
        batch=batch,
        out_order=order,
        mask=kind,
        causal=a.causal,
        scale=a.factor(),
        logsumexp=logsumexp,
        empty_is_nan=a.empty_is_nan,
        acc=acc,
        **params,
    )
    return with_logsumexp(out, logsumexp)
