"""When and how a matrix product goes through the matrix unit (templates/matrix_gemm.py)."""

from __future__ import annotations

from typing import Any

import torch

from ocl_inductor.ir.index import Size, contiguous_strides, is_static, prod, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.product_operands import pack_panels, without_broadcast
from ocl_inductor.lowering.values import StridedView, Value, strided_view
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.matrix_gemm import BLOCK
from ocl_inductor.templates.matrix_parts import tiles, words

#: Nanoseconds on two cores with AVX-512 and AMX: of a multiplication by vectors and by the unit, of
#: splitting a number of A and one of B. Measured: 512x768x768 1.7 ms by vectors; 1.1 ms by the unit
#: with B split in 0.2 ms, and 0.05 ms for A.
_BY_VECTORS, _BY_UNIT, _SPLIT_A, _SPLIT_B = 0.0056, 0.0029, 0.13, 0.34
#: Columns of a panel at most, and K of a block of B: 576 KiB of parts stay in a second-level cache.
_MAX_COLUMNS, _MAX_DEPTH = 128, 768
#: With several blocks along K, sums take up to 256 KiB of that cache.
_DEPTH_OF_MANY, _MAX_BLOCKS = 512, 16
#: Work-items for each compute unit that even out their speeds.
_ITEMS_PER_UNIT = 3


def suits_matrix_unit(
    ctx: LoweringContext, dtype: torch.dtype, rows: Size, k: Size, n: Size
) -> bool:
    """Whether a product of (rows, k) and (k, n) is faster so. float32 only."""
    if not ctx.device.amx or dtype is not torch.float32 or not is_static(k) or not is_static(n):
        return False
    m = ctx.hint(rows)
    whole = ceil_div(m, BLOCK) * BLOCK * ceil_div(int(n), BLOCK) * BLOCK
    unit = whole * int(k) * _BY_UNIT + int(k) * (m * _SPLIT_A + int(n) * _SPLIT_B)
    return unit < m * int(n) * int(k) * _BY_VECTORS


def product_by_matrix_unit(
    ctx: LoweringContext,
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
    blocks = _blocking(ctx, m, k, n, batch)
    parts, parts_strides = _parts(ctx, a, a_view)
    params: dict[str, Any] = {
        "m": m, "n": n, "k": k,
        "batch": batch, "out_batch": out_batch, "out_order": out_order,
        "a_offset": a_view.offset, "a_strides": a_view.stride, "parts_strides": parts_strides,
        "acc": "float", **blocks,
    }  # fmt: skip
    layout = _layout_in_place(strided_view(b))
    if layout is not None:
        lying = strided_view(b)
        assert lying is not None
        params |= {"b_layout": layout, "b_strides": lying.stride, "b_offset": lying.offset}
    else:
        once, shared = without_broadcast(b, range(nb))
        b = pack_panels(ctx, once, blocks["nr"])
        strides = contiguous_strides(b.size)
        params |= {
            "b_layout": "panels",
            "b_strides": tuple(0 if s else x for s, x in zip(shared[:nb], strides, strict=False)),
            "b_offset": 0,
        }
    size, order = (*out_batch, m, n), (*out_order, len(out_batch) + 1)
    return ctx.template("matrix_gemm", torch.float32, size, order, [parts, b, a], **params)


def _layout_in_place(b: StridedView | None) -> str | None:
    """How the template reads B where it lies; None: B is packed."""
    if b is None:
        return None
    if same(b.stride[-2], 1):
        return "columns"
    return "rows" if same(b.stride[-1], 1) and int(b.size[-1]) % BLOCK == 0 else None


def _parts(ctx: LoweringContext, a: Value, view: StridedView) -> tuple[Value, tuple[Size, ...]]:
    """A as parts, and their batch strides: 0 where batches share a matrix. Split once."""
    nb = a.ndim - 2
    shared = [same(s, 0) for s in view.stride[:nb]]
    batch = tuple(1 if s else n for s, n in zip(shared, a.size[:nb], strict=True))
    m, k = a.size[-2], int(a.size[-1])
    size = (*batch, tiles(m), words(k))
    strides = tuple(0 if s else x for s, x in zip(shared, contiguous_strides(size), strict=False))
    key = (a.body, a.size)
    if key not in ctx.split:
        ctx.split[key] = ctx.template(
            "matrix_parts", torch.int32, size, tuple(range(len(size))), [a],
            m=m, k=k, batch=batch, a_offset=view.offset, a_strides=view.stride, acc="float",
        )  # fmt: skip
    return ctx.split[key], strides


def _blocking(
    ctx: LoweringContext, m: Size, k: int, n: int, batch: tuple[Size, ...]
) -> dict[str, int]:
    """Columns of a panel, K of a block, and blocks of rows to a work-item."""
    depth = k if k <= _MAX_DEPTH else ceil_div(k, ceil_div(k, _DEPTH_OF_MANY))
    depth = ceil_div(depth, BLOCK) * BLOCK
    panels = ceil_div(n, _MAX_COLUMNS)
    columns = ceil_div(ceil_div(n, panels), BLOCK) * BLOCK
    rows = ceil_div(ctx.hint(m), BLOCK)
    chunks = 1 if depth >= k else ceil_div(rows, _MAX_BLOCKS)
    products = panels * ctx.hint(prod(batch)) if batch else panels
    wanted = _ITEMS_PER_UNIT * ctx.device.compute_units
    if products * chunks < wanted:
        chunks = min(rows, ceil_div(wanted, products))
    return {"nr": columns, "kc": depth, "mb": ceil_div(rows, chunks)}
