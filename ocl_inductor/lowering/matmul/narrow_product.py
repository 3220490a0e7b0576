"""When and how a product of bfloat16 or of bytes goes through the matrix unit
(templates/gemm/narrow_gemm.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from ocl_inductor.ir.index import is_static, prod, same
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.matmul.problem import Gemm
from ocl_inductor.lowering.matmul.product_operands import realize_along, with_split_batch
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.gemm.narrow_gemm import (
    BLOCK,
    NARROW_GEMM,
    STEP_BYTES,
    NarrowGemmParams,
    Operands,
)
from ocl_inductor.templates.gemm.skinny_gemm import VERY_FEW
from ocl_inductor.templates.matrix_unit_costs import matrix_unit_costs

#: By the types of A and B.
OPERANDS: Mapping[tuple[torch.dtype, torch.dtype], Operands] = {
    (torch.bfloat16, torch.bfloat16): "bfloat16",
    (torch.int8, torch.int8): "int8",
    (torch.uint8, torch.int8): "uint8",
}
#: Terms from which a product pays for putting its operands in order.
_MIN_TERMS = 16
#: Panels for each core up to which more of them are considered, which may even out.
_MOST_ITEMS = 8


@dataclass(frozen=True, slots=True)
class NarrowWork:
    """``batches`` products of ``m`` rows and ``n`` columns, with sums of ``steps`` tiles."""

    batches: int
    m: int
    steps: int
    n: int


@dataclass(frozen=True, slots=True)
class PanelPartition:
    """How a product is shared out: panels of ``nr`` columns by ``mb`` blocks of rows.

    ``time``: nanoseconds of the busiest core.
    """

    nr: int
    mb: int
    time: float


def narrow_product(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product of bfloat16 to float32, or of bytes to int32."""
    a, b, out_order = problem.a, problem.b, problem.order
    m, k, n = a.size[-2], a.size[-1], b.size[-1]
    operands = OPERANDS.get((a.dtype, b.dtype))
    if not ctx.device.amx:
        return Declined("the device has no matrix unit")
    if operands is None:
        return Declined(f"the unit does not multiply {a.dtype} by {b.dtype}")
    if not is_static(k) or int(k) < _MIN_TERMS:
        return Declined(f"sums of {k} terms: not known to be at least {_MIN_TERMS}")
    if ctx.hint(m) <= VERY_FEW or ctx.hint(n) <= VERY_FEW:
        return Declined(f"{m} rows and {n} columns are too few for its tiles")
    out_batch = a.size[:-2]
    steps = ceil_div(int(k) * a.dtype.itemsize, STEP_BYTES)
    work = NarrowWork(ctx.hint(prod((1, *out_batch))), ctx.hint(m), steps, ctx.hint(n))
    a, b = with_split_batch(a, b)
    a, a_view = realize_along(ctx, a, a.dtype, (-1, -2))
    b, b_view = realize_along(ctx, b, b.dtype, (-1, -2))
    units = "k" if same(a_view.stride[-1], 1) else "m", "k" if same(b_view.stride[-2], 1) else "n"
    plain, turned = _plain(ctx, work, *units), _turned(ctx, work, *units)
    part = min((p for p in (plain, turned) if p), key=lambda p: p.time, default=None)
    if part is None:
        return Declined(f"a panel of {k} rows does not stay in a core's cache")
    acc, out = ("float", torch.float32) if operands == "bfloat16" else ("int", torch.int32)
    params = NarrowGemmParams(
        m=m, n=n, k=int(k),
        batch=a.size[:-2], out_batch=out_batch, out_order=out_order,
        a_offset=a_view.offset, a_strides=a_view.stride,
        b_offset=b_view.offset, b_strides=b_view.stride,
        acc=acc, operands=operands, nr=part.nr, mb=part.mb, turned=part is turned,
    )  # fmt: skip
    size, order = (*out_batch, m, n), (*out_order, len(out_batch) + 1)
    return ctx.template(NARROW_GEMM, out, size, order, [a, b], params)


def partition_of_panels(
    ctx: LoweringContext, work: NarrowWork, row_tile: float, column_tile: float
) -> PanelPartition | None:
    """The one whose busiest core is done first; None where no panel stays in cache.

    ``row_tile``, ``column_tile``: nanoseconds to put one of A, and one of B, in order; a B that
    takes none is in order before. The limit bounds the two blocks of rows on an item's stack, too.
    """
    costs, cores = matrix_unit_costs(ctx.device), ctx.device.compute_units
    groups, blocks = ceil_div(work.n, BLOCK), ceil_div(work.m, BLOCK)
    group_bytes = work.steps * STEP_BYTES * BLOCK
    widest = int(costs.narrow_panel * ctx.device.caches.l2) // group_bytes
    found: list[PanelPartition] = []
    for panels in range(1, groups + 1):
        width = ceil_div(groups, panels)
        if width > widest:
            continue
        items = ceil_div(groups, width) * work.batches
        for chunks in range(1, min(blocks, costs.items_per_unit * cores) + 1):
            high = ceil_div(blocks, chunks)
            rounds = ceil_div(items * ceil_div(blocks, high), cores)
            tiles = 2 * width * column_tile + 2 * high * row_tile
            time = rounds * work.steps * (width * high * costs.narrow_step + tiles)
            found.append(PanelPartition(width * BLOCK, high, time))
        if items >= _MOST_ITEMS * cores:
            break
    return min(found, key=lambda p: p.time, default=None)


def _plain(ctx: LoweringContext, work: NarrowWork, a: str, b: str) -> PanelPartition | None:
    """``a``, ``b``: the dimensions with unit stride, "k" or another."""
    costs = matrix_unit_costs(ctx.device)
    rows = costs.narrow_copied if a == "k" else costs.narrow_across + costs.narrow_transposed
    columns = costs.narrow_copied + costs.narrow_transposed if b == "k" else costs.narrow_across
    return partition_of_panels(ctx, work, rows, columns)


def _turned(ctx: LoweringContext, work: NarrowWork, a: str, b: str) -> PanelPartition | None:
    """The same of the transposed product, whose results are transposed: four tiles a block."""
    part = _plain(ctx, replace(work, m=work.n, n=work.m), b, a)
    if part is None:
        return None
    blocks = ceil_div(work.m, BLOCK) * ceil_div(work.n, BLOCK) * work.batches
    each = 4 * matrix_unit_costs(ctx.device).narrow_transposed / ctx.device.compute_units
    return replace(part, time=part.time + blocks * each)
