"""Matrix products by the gemm template: layouts of the operands, blocking, sums in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, contiguous_strides, is_static, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, without_broadcast
from ocl_inductor.lowering.core.values import StridedView, Value, strided_view, transposed
from ocl_inductor.lowering.matmul.product_limits import product_limits
from ocl_inductor.lowering.matmul.product_operands import (
    accumulator,
    pack_panels,
    realize_operand,
    with_split_batch,
)
from ocl_inductor.templates.blocking import (
    MAX_K_CHAIN,
    Blocking,
    ceil_div,
    choose_blocking,
    size_ceil_div,
    with_few_sums,
    with_tall_items,
)
from ocl_inductor.templates.gemm.gemm import GEMM, GemmParams
from ocl_inductor.templates.simt_tiles import ProductWork, SimtTile, choose_tile


def product_by_template(
    ctx: LoweringContext, a: Value, b: Value, out: torch.dtype, out_order: tuple[int, ...]
) -> Value:
    out_batch = a.size[:-2]
    m, k, n = a.size[-2], a.size[-1], b.size[-1]
    a, b = with_split_batch(a, b)
    a, a_view = realize_operand(ctx, a, out)
    batch, acc = a.size[:-2], accumulator(out)
    rows, columns, batches = ctx.hint(m), ctx.hint(n), ctx.hint(prod(batch)) if batch else 1
    parts, tile = 1, None
    if ctx.device.profile == "simt":
        work = ProductWork(acc, rows, columns, batches, ctx.hint(k))
        tile, parts = choose_tile(ctx.device, work)
    b_bytes = ctx.hint(prod((k, n))) * out.itemsize
    params = GemmParams(
        m=m, n=n, k=k,
        batch=batch, out_batch=out_batch, out_order=out_order,
        a_layout="strided", a_offset=a_view.offset, a_strides=a_view.stride,
        b_layout="strided", b_offset=0, b_strides=(),
        acc=acc,
        tile=tile or choose_blocking(ctx.device, acc, rows, columns, batches, b_bytes),
    )  # fmt: skip
    if tile is None:
        return _by_vectors(ctx, params, a, a_view, b, out)
    b, b_view = realize_operand(ctx, b, out)
    params = ctx.tuned(GEMM, replace(params, b_strides=b_view.stride, b_offset=b_view.offset))
    if parts > 1:
        assert isinstance(params.tile, SimtTile)
        slab = params.tile.slab
        chunk = ceil_div(ceil_div(ctx.hint(k), parts), slab) * slab
        return _sum_of_parts(ctx, params, chunk, out, [a, b])
    return _whole(ctx, params, out, [a, b])


def _whole(ctx: LoweringContext, params: GemmParams, dtype: torch.dtype, ab: list[Value]) -> Value:
    size = (*params.out_batch, params.m, params.n)
    return ctx.template(GEMM, dtype, size, (*params.out_order, len(size) - 1), ab, params)


def _by_vectors(
    ctx: LoweringContext,
    params: GemmParams,
    a: Value,
    a_view: StridedView,
    b: Value,
    out: torch.dtype,
) -> Value:
    """The product of profile ``vector``; ``params``: with the default blocking, A where it lies."""
    n, k, nb, blocking = params.n, params.k, len(params.batch), params.blocking
    rows, columns = ctx.hint(params.m), ctx.hint(n)
    batches = ctx.hint(prod(params.batch)) if params.batch else 1
    # Batch dimensions that share an operand pack it once.
    once_a, shared_a = without_broadcast(a, range(nb))
    once_b, shared_b = without_broadcast(cast_value(b, out), range(nb))
    pack_a = _worth_packing(ctx, a_view, out, columns // blocking.nr)
    k_part = 0 if pack_a else _part_of_sum(ctx, a_view, out)
    if k_part:
        params = replace(params, k_part=k_part)
        blocking = with_few_sums(ctx.device, blocking, out.itemsize)
    if pack_a:
        strides = _any_strides(shared_a[:nb])
        params = replace(params, a_layout="panels", a_offset=0, a_strides=strides)
    tall = with_tall_items(ctx.device, blocking, rows, columns, batches)
    chunk = _chunk_of_sum(ctx, k, rows, tall, out)
    lying = _rows_in_place(ctx, cast_value(b, out), blocking.nr)
    own = None
    if lying is None and not k_part:
        own = _packed_by_items(ctx, b, tall, chunk or k, out)
    if lying is not None:
        strides, offset = lying.stride[:-1], lying.offset
        params = replace(params, b_layout="rows", b_strides=strides, b_offset=offset)
    elif own is not None:
        params = replace(params, b_strides=own.stride, b_offset=own.offset)
    else:
        strides = _any_strides(shared_b[:nb])
        params = replace(params, b_layout="panels", b_strides=strides)
    if own is not None and chunk:  # whole sums, which would be tried, have no such panels
        params = replace(params, tile=tall)
    else:
        params = ctx.tuned(GEMM, params)
    if pack_a:
        a = pack_panels(ctx, transposed(once_a), params.blocking.mr)
        params = replace(params, a_strides=_batch_strides(a, shared_a[:nb]))
    if params.b_layout == "panels":
        b = pack_panels(ctx, once_b, params.blocking.nr)
        params = replace(params, b_strides=_batch_strides(b, shared_b[:nb]))
    if own is None:
        chunk = _chunk_of_sum(ctx, k, rows, params.blocking, out)
    if k_part and _keeps_busy(ctx, params.blocking, rows, columns, batches):
        chunk = 0
    if chunk:
        return _sum_of_parts(ctx, params, chunk, out, [a, b])
    return _whole(ctx, params, out, [a, b])


def _packed_by_items(
    ctx: LoweringContext, b: Value, blocking: Blocking, depth: Size, dtype: torch.dtype
) -> StridedView | None:
    """B where it lies, if each work-item is to pack the panel that it needs, of ``depth`` rows."""
    view = strided_view(b)
    if view is None or b.dtype is not dtype or not is_static(b.size[-2]):
        return None
    if not same(view.stride[-1], 1) and not same(view.stride[-2], 1):
        return None
    rows_bytes = blocking.mr * blocking.mb * int(depth) * dtype.itemsize
    limits = product_limits(ctx.device)
    most = min(limits.max_rows * ctx.device.caches.l3, limits.most_rows_bytes)
    if rows_bytes > most and not ctx.is_kept(b):
        return None
    return view if packs_own_panel(ctx.device, blocking, int(depth), dtype) else None


def packs_own_panel(device: DeviceInfo, blocking: Blocking, k: int, dtype: torch.dtype) -> bool:
    """Whether work-items of ``blocking`` are to pack panels of ``k`` rows for themselves."""
    limits = product_limits(device)
    panel_bytes = k * blocking.nr * dtype.itemsize
    if blocking.mr * blocking.mb < limits.min_rows_of_own_panel:
        return False
    return panel_bytes <= limits.max_own_panel * device.caches.l2


def _chunk_of_sum(
    ctx: LoweringContext, k: Size, rows: int, blocking: Blocking, dtype: torch.dtype
) -> int:
    """Terms of a partial sum for such a product; 0: the sum stays whole.

    Each tile of rows reads a panel of B once: it should come from a cache nearby.
    """
    limits = product_limits(ctx.device)
    terms, row = ctx.hint(k), blocking.nr * dtype.itemsize
    most = int(limits.max_panel * ctx.device.caches.l2)
    if terms * row <= most or rows < limits.min_tiles_for_parts * blocking.mr:
        return 0
    parts = ceil_div(terms * row, most // 2)
    return ceil_div(terms, parts)


def _part_of_sum(ctx: LoweringContext, a: StridedView, dtype: torch.dtype) -> int:
    """Terms that all tiles of an A read in place add up before they go on; 0: the whole sum."""
    limits = product_limits(ctx.device)
    terms, step = ctx.hint(a.size[-1]), a.stride[-1]
    if same(step, 1) or ctx.hint(step) * dtype.itemsize < limits.min_bytes_apart:
        return 0
    return 0 if terms <= limits.max_lines_of_a else ceil_div(terms, ceil_div(terms, MAX_K_CHAIN))


def _keeps_busy(
    ctx: LoweringContext, blocking: Blocking, rows: int, columns: int, batches: int
) -> bool:
    items = ceil_div(rows, blocking.mr * blocking.mb) * ceil_div(columns, blocking.nr) * batches
    return items >= 4 * ctx.device.compute_units


def _sum_of_parts(
    ctx: LoweringContext, params: GemmParams, chunk: int, dtype: torch.dtype, ab: list[Value]
) -> Value:
    """The product by ``params`` as partial sums of ``chunk`` terms, which are then added up."""
    nb, parts = len(params.batch), size_ceil_div(params.k, chunk)
    row = params.blocking.mr if params.a_layout == "panels" else params.a_strides[nb + 1]
    panels = params.b_layout == "panels"
    column = params.blocking.nr if panels else params.b_strides[nb]
    # The parts of one row are neighbours.
    params = replace(
        params,
        k_chunk=chunk,
        batch=(parts, *params.batch),
        out_batch=(parts, *params.out_batch),
        out_order=(*(d + 1 for d in params.out_order), 0),
        a_strides=(chunk * row, *params.a_strides),
        b_strides=(chunk * column, *params.b_strides),
    )
    return ctx.reduce(_whole(ctx, params, dtype, ab), [0], "sum")


def _worth_packing(ctx: LoweringContext, a: StridedView, dtype: torch.dtype, panels: int) -> bool:
    """Whether A is packed, which ``panels`` of columns read."""
    limits = product_limits(ctx.device)
    step, terms = a.stride[-1], ctx.hint(a.size[-1])
    if same(step, 0) or same(step, 1):
        return False
    if terms <= limits.max_unpacked_rows or limits.max_packed_terms < terms:
        return False
    # Batches that share it pack it once.
    elements = prod([n for n, s in zip(a.size, a.stride, strict=True) if not same(s, 0)])
    if ctx.hint(elements) * dtype.itemsize > limits.max_packed_bytes:
        return False
    few = 2 if ctx.hint(step) * dtype.itemsize % limits.set_bytes == 0 else limits.min_panels
    return panels >= few


def _any_strides(shared: Sequence[bool]) -> tuple[int, ...]:
    """Batch strides of an operand that is not packed yet: 0 where batches share it."""
    return tuple(0 if s else 1 for s in shared)


def _batch_strides(packed: Value, shared: Sequence[bool]) -> tuple[Size, ...]:
    strides = contiguous_strides(packed.size)
    return tuple(0 if s else stride for s, stride in zip(shared, strides, strict=False))


def _rows_in_place(ctx: LoweringContext, b: Value, nr: int) -> StridedView | None:
    """B read where it lies: unit stride along whole panels of columns and few rows."""
    view, most = strided_view(b), product_limits(ctx.device).max_unpacked_rows
    if view is None or not same(view.stride[-1], 1) or ctx.hint(b.size[-2]) > most:
        return None
    if not is_static(b.size[-1]) or int(b.size[-1]) % nr:
        return None
    return view
