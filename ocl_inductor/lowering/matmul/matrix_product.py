"""When and how a matrix product goes through the matrix unit (templates/gemm/matrix_gemm.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from ocl_inductor.ir.index import Size, contiguous_strides, is_static, prod, same
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, without_broadcast
from ocl_inductor.lowering.core.values import StridedView, Value, strided_view
from ocl_inductor.lowering.matmul.problem import Gemm
from ocl_inductor.lowering.matmul.product_operands import (
    pack_panels,
    realize_operand,
    with_split_batch,
)
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.gemm.matrix_gemm import BLOCK, MATRIX_GEMM, MatrixGemmParams
from ocl_inductor.templates.matrix_unit_costs import matrix_unit_costs


@dataclass(frozen=True, slots=True)
class Partition:
    """How a product is shared out: panels of ``nr`` columns by ``mb`` blocks of rows, ``kc`` of K
    at a time; ``cost``: nanoseconds that splitting takes."""

    nr: int
    mb: int
    kc: int
    cost: float


def partition_for_unit(
    ctx: LoweringContext,
    dtype: torch.dtype,
    batch: tuple[Size, ...],
    rows: Size,
    depth: Size,
    columns: Size,
) -> Partition | Declined:
    """How products of (rows, depth) and (depth, columns) go to the unit. float32 only."""
    if not ctx.device.amx or dtype is not torch.float32:
        return Declined("the device has no matrix unit for this dtype")
    if not is_static(depth) or not is_static(columns):
        return Declined("the numbers of terms and columns are not known")
    m, k, n = ctx.hint(rows), int(depth), int(columns)
    whole = ceil_div(m, BLOCK) * BLOCK * ceil_div(n, BLOCK) * BLOCK * ceil_div(k, BLOCK) * BLOCK
    part, costs = _partition(ctx, batch, m, k, n), matrix_unit_costs(ctx.device)
    by_unit = whole * costs.by_unit + part.cost + m * n * costs.result
    faster = by_unit < m * n * k * costs.by_vectors
    return part if faster else Declined("vectors are faster: splitting takes longer than it saves")


def product_by_matrix_unit(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product in float32, each operand split into parts of bfloat16."""
    m, k, n = problem.a.size[-2], problem.a.size[-1], problem.b.size[-1]
    a, b = with_split_batch(problem.a, problem.b)
    part = partition_for_unit(ctx, problem.out, a.size[:-2], m, k, n)
    if isinstance(part, Declined):
        return part
    a, view = realize_operand(ctx, a, problem.out)
    b = cast_value(b, problem.out)
    return _by_partition(ctx, part, a, view, b, problem.a.size[:-2], problem.order)


def _by_partition(
    ctx: LoweringContext,
    part: Partition,
    a: Value,
    a_view: StridedView,
    b: Value,
    out_batch: tuple[Size, ...],
    out_order: tuple[int, ...],
) -> Value:
    """(\\*batch, m, k) in memory times (\\*batch, k, n), both float32, to (\\*out_batch, m, n)."""
    batch = a.size[:-2]
    nb = len(batch)
    m, k, n = a.size[-2], int(a.size[-1]), int(b.size[-1])
    lying = strided_view(b)
    layout: Literal["panels", "rows", "columns"] | None = None
    if lying is not None:
        layout = _layout_in_place(lying)
    if lying is not None and layout is not None:
        b_strides, b_offset = lying.stride, lying.offset
    else:
        once, shared = without_broadcast(b, range(nb))
        b = pack_panels(ctx, once, part.nr)
        strides = contiguous_strides(b.size)
        layout, b_offset = "panels", 0
        b_strides = tuple(0 if s else x for s, x in zip(shared[:nb], strides, strict=False))
    params = MatrixGemmParams(
        m=m, n=n, k=k,
        batch=batch, out_batch=out_batch, out_order=out_order,
        a_offset=a_view.offset, a_strides=a_view.stride,
        b_layout=layout, b_offset=b_offset, b_strides=b_strides,
        nr=part.nr, mb=part.mb, kc=part.kc,
        acc="float",
    )  # fmt: skip
    size, order = (*out_batch, m, n), (*out_order, len(out_batch) + 1)
    return ctx.template(MATRIX_GEMM, torch.float32, size, order, [a, b], params)


def _layout_in_place(b: StridedView) -> Literal["rows", "columns"] | None:
    """How the template reads B where it lies; None: B is packed."""
    if same(b.stride[-2], 1):
        return "columns"
    return "rows" if same(b.stride[-1], 1) and int(b.size[-1]) % BLOCK == 0 else None


def _partition(ctx: LoweringContext, batch: tuple[Size, ...], m: int, k: int, n: int) -> Partition:
    """The one that splits at least cost, of those that keep all compute units busy."""
    costs = matrix_unit_costs(ctx.device)
    depth = k if k <= costs.max_depth else ceil_div(k, ceil_div(k, costs.depth_of_many))
    depth = ceil_div(depth, BLOCK) * BLOCK
    groups, rows = ceil_div(n, BLOCK), ceil_div(m, BLOCK)
    busy_items = costs.items_per_unit * ctx.device.compute_units
    wanted = ceil_div(busy_items, ctx.hint(prod((1, *batch))))
    found = []
    for panels in range(1, groups + 1):
        width = ceil_div(groups, panels)
        if width * BLOCK * depth * 3 // 2 > costs.max_parts and width > 1:
            continue
        panels = ceil_div(groups, width)
        chunks = min(rows, ceil_div(wanted, panels))
        if depth < k:
            chunks = max(chunks, ceil_div(rows * width * BLOCK * BLOCK, costs.max_sums))
        high = ceil_div(rows, chunks)
        cost = m * k * costs.split_a * panels + k * n * costs.split_b * ceil_div(rows, high)
        found.append(Partition(width * BLOCK, high, depth, cost))
        if panels >= wanted:
            break
    busy = min(wanted // costs.items_per_unit, groups * rows)

    def rank(p: Partition) -> tuple[bool, float]:
        items = ceil_div(n, p.nr) * ceil_div(m, p.mb * BLOCK)
        return items < busy, p.cost

    return min(found, key=rank)
