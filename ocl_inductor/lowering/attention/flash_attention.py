"""When and how attention goes through one kernel (templates/attention/attention.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypedDict, TypeVar

from ocl_inductor.ir.index import Size, is_static, prod, same
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.attention.decode_attention import decode_attention
from ocl_inductor.lowering.attention.matrix_attention import blocks_for_unit
from ocl_inductor.lowering.attention.mma_attention import rows_in_runs, tile_of_instructions
from ocl_inductor.lowering.attention.narrow_attention import adjacent_columns, blocks_of_queries
from ocl_inductor.lowering.attention.operands import (
    Operand,
    additive_mask,
    operand_in_place,
    row_order,
    with_logsumexp,
)
from ocl_inductor.lowering.core.choose import Declined, Implementation, choose
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.matmul.matmul import compute_dtype
from ocl_inductor.lowering.matmul.mma_product import HALVES
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.templates.attention.attention import (
    ATTENTION,
    AttentionParams,
    ManyQueriesParams,
    MaskKind,
    columns_of,
)
from ocl_inductor.templates.attention.matrix_attention import (
    MATRIX_ATTENTION,
    MatrixAttentionParams,
)
from ocl_inductor.templates.attention.mma_attention import MMA_ATTENTION, MmaAttentionParams
from ocl_inductor.templates.attention.narrow_attention import (
    NARROW_ATTENTION,
    NarrowAttentionParams,
)
from ocl_inductor.templates.attention.query_groups import QueryGroup, choose_group
from ocl_inductor.templates.blocking import RowVectors, choose_query_vectors
from ocl_inductor.templates.spec import TemplateSpec

#: A lane is a query: with fewer of them most lanes would idle.
_MIN_QUERIES = 4
#: Queries, a block's scores and results of a work-item must stay in a second level cache.
_MAX_WIDTH = 512


P = TypeVar("P", bound=ManyQueriesParams)

#: Output, and the logarithm of each row's sum of exponentials.
Attended = tuple[Value, Value]


def flash_attention(ctx: LoweringContext, a: Attention, *, logsumexp: bool) -> Attended | None:
    """The output (\\*batch, m, v_width), and the logarithm of each row's sum of exponentials.

    Without ``logsumexp`` the second result, which is unused then, is zeros. Both have the
    compute dtype. None: the kernel does not suit.
    """
    ways: tuple[Implementation[Attention, Attended], ...] = (
        Implementation("decode_attention", partial(decode_attention, logsumexp=logsumexp)),
        Implementation("narrow_attention", partial(_by_narrow_unit, logsumexp=logsumexp)),
        Implementation("matrix_attention", partial(_by_matrix_unit, logsumexp=logsumexp)),
        Implementation("mma_attention", partial(_by_matrix_instructions, logsumexp=logsumexp)),
        Implementation("attention", partial(_by_tiles, logsumexp=logsumexp)),
    )
    return choose(ctx, "attention", a, ways, otherwise="products and a softmax")


def _misfit(ctx: LoweringContext, a: Attention) -> Declined | None:
    """Why none of the kernels for many queries suits."""
    widths = (a.width, a.v_width)
    if not all(map(is_static, widths)) or max(map(int, widths)) > _MAX_WIDTH:
        return Declined(f"rows of {a.width} and {a.v_width}: not known, or above {_MAX_WIDTH}")
    if ctx.hint(a.m) < _MIN_QUERIES or not a.batch:
        return Declined(f"{a.m} queries are fewer than {_MIN_QUERIES}, or there is no batch")
    return None


def _by_narrow_unit(ctx: LoweringContext, a: Attention, *, logsumexp: bool) -> Attended | Declined:
    if misfit := _misfit(ctx, a):
        return misfit
    high = blocks_of_queries(ctx, a)
    if isinstance(high, Declined):
        return high
    narrow = [adjacent_columns(ctx, x) for x in (a.query, a.key, a.value)]
    operands, given = _given(ctx, a, narrow, logsumexp)
    params = NarrowAttentionParams(**given, n=int(a.n), mb=high)
    return _by_kernel(ctx, a, NARROW_ATTENTION, operands, params)


def _by_matrix_unit(ctx: LoweringContext, a: Attention, *, logsumexp: bool) -> Attended | Declined:
    acc = accumulator(compute_dtype(a.query.dtype))
    if misfit := _misfit(ctx, a):
        return misfit
    high = 0 if ctx.device.profile == "simt" else blocks_for_unit(ctx, acc, a)
    if not high:
        return Declined("the device has no matrix unit for this dtype, or vectors are faster")
    operands, given = _given(ctx, a, _wide(ctx, a), logsumexp)
    params = MatrixAttentionParams(**given, n=int(a.n), mb=high)
    return _by_kernel(ctx, a, MATRIX_ATTENTION, operands, params)


def _by_matrix_instructions(
    ctx: LoweringContext, a: Attention, *, logsumexp: bool
) -> Attended | Declined:
    if misfit := _misfit(ctx, a):
        return misfit
    tile = tile_of_instructions(ctx, a)
    if isinstance(tile, Declined):
        return tile
    halves = [rows_in_runs(ctx, x) for x in (a.query, a.key, a.value)]
    operands, given = _given(ctx, a, halves, logsumexp)
    params = MmaAttentionParams(**given, n=a.n, half=HALVES[a.query.dtype], tile=tile)
    return _by_kernel(ctx, a, MMA_ATTENTION, operands, params)


def _by_tiles(ctx: LoweringContext, a: Attention, *, logsumexp: bool) -> Attended | Declined:
    acc = accumulator(compute_dtype(a.query.dtype))
    if misfit := _misfit(ctx, a):
        return misfit
    tile: QueryGroup | RowVectors
    if ctx.device.profile == "simt":
        rows, heads = ctx.hint(a.m), ctx.hint(prod(a.batch))
        group = choose_group(ctx.device, acc, rows, heads, int(a.width), int(a.v_width))
        if group is None:
            return Declined("its tiles do not fit into local memory")
        tile = group
    else:
        tile = choose_query_vectors(ctx.device, acc, ctx.hint(a.m), ctx.hint(prod(a.batch)))
    operands, given = _given(ctx, a, _wide(ctx, a), logsumexp)
    params = AttentionParams(**given, n=a.n, tile=tile)
    return _by_kernel(ctx, a, ATTENTION, operands, params)


class _AttentionGiven(TypedDict):
    """The parameters that the kernels share."""

    m: Size
    width: int
    v_width: int
    batch: tuple[Size, ...]
    out_order: tuple[int, ...]
    q_strides: tuple[Size, ...]
    q_offset: Size
    k_strides: tuple[Size, ...]
    k_offset: Size
    v_strides: tuple[Size, ...]
    v_offset: Size
    mask: MaskKind
    mask_strides: tuple[Size, ...]
    mask_offset: Size
    causal: bool
    scale: float
    logsumexp: bool
    empty_is_nan: bool
    acc: str


def _wide(ctx: LoweringContext, a: Attention) -> list[Operand]:
    """Query, key and value in memory, in the compute dtype."""
    wide = a.cast(compute_dtype(a.query.dtype))
    return [operand_in_place(ctx, x) for x in (wide.query, wide.key, wide.value)]


def _given(
    ctx: LoweringContext, a: Attention, operands: Sequence[Operand], logsumexp: bool
) -> tuple[list[Value], _AttentionGiven]:
    """All operands with the mask, and what each kernel wants to know."""
    dtype = compute_dtype(a.query.dtype)
    q, k, v = operands
    kind: MaskKind = ""
    mask = []
    if a.mask is not None:
        mask = [additive_mask(ctx, a.mask, (*a.batch, a.m, a.n), dtype, rows_adjacent=True)]
        stride = mask[0].strides[len(a.batch)]
        kind = "row" if same(stride, 0) else ("lanes" if same(stride, 1) else "any")
    given: _AttentionGiven = {
        "m": a.m, "width": int(a.width), "v_width": int(a.v_width),
        "batch": a.batch, "out_order": row_order(ctx, a.query),
        "q_strides": q.strides, "q_offset": q.offset,
        "k_strides": k.strides, "k_offset": k.offset,
        "v_strides": v.strides, "v_offset": v.offset,
        "mask": kind,
        "mask_strides": mask[0].strides if mask else (),
        "mask_offset": mask[0].offset if mask else 0,
        "causal": a.causal, "scale": a.factor(),
        "logsumexp": logsumexp, "empty_is_nan": a.empty_is_nan,
        "acc": accumulator(dtype),
    }  # fmt: skip
    return [x.value for x in (q, k, v, *mask)], given


def _by_kernel(
    ctx: LoweringContext, a: Attention, spec: TemplateSpec[P], operands: Sequence[Value], params: P
) -> Attended:
    dtype, order = compute_dtype(a.query.dtype), (*params.out_order, len(a.batch) + 1)
    size = (*a.batch, a.m, columns_of(params))
    out = ctx.template(spec, dtype, size, order, operands, params)
    return with_logsumexp(out, params.logsumexp)
