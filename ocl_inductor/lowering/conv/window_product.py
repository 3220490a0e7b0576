"""Gradient of a convolution's weight on GPUs: a product over windows, none of which is written."""

from __future__ import annotations

import math

from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.lowering.conv.geometry import Geometry
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, permute, reshape, strided_view
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.conv.window_product import WINDOW_PRODUCT, WindowProductParams
from ocl_inductor.templates.simt_tiles import ProductWork, choose_tile

#: Fewer rows or columns than this are no tile.
_MIN_SIDE = 4


def multiplies_windows(coarse: Value, fine: Value, g: Geometry) -> bool:
    """Whether windows are not just the elements of ``fine``, which a product reads as they are."""
    taps = math.prod(g.kernel)
    rows, columns = coarse.size[1], fine.size[1] * taps
    apart = taps > 1 or any(s > 1 for s in g.stride) or any(g.padding)
    sizes = (*coarse.size, *fine.size)
    if g.groups != 1 or not apart or not all(map(is_static, sizes)):
        return False
    return min(int(rows), int(columns)) >= _MIN_SIDE


def window_product(
    ctx: LoweringContext, coarse: Value, fine: Value, size: tuple[Size, ...], g: Geometry
) -> Value:
    """As weight_gradient.py has it; both operands lie channels-last."""
    nd, acc = g.ndim, accumulator(coarse.dtype)
    rows, channels = int(coarse.size[1]), int(fine.size[1])
    columns = channels * math.prod(g.kernel)
    count = math.prod(int(coarse.size[d]) for d in (0, *range(2, nd + 2)))
    near, far = strided_view(coarse), strided_view(fine)
    assert near is not None and far is not None
    tile, parts = choose_tile(ctx.device, ProductWork(acc, rows, columns, 1, count))
    per_part = ceil_div(ceil_div(count, parts), tile.slab) * tile.slab
    parts = ceil_div(count, per_part)
    params = WindowProductParams(
        n=coarse.size[0], windows=tuple(coarse.size[2:]), extents=tuple(fine.size[2:]),
        kernel=g.kernel, stride=g.stride, padding=g.padding, dilation=g.dilation,
        rows=rows, channels=channels,
        row_offset=near.offset, fine_offset=far.offset,
        parts=parts, windows_per_part=per_part, acc=acc, tile=tile,
    )  # fmt: skip
    # The parts of one row are neighbours.
    shape = (parts, rows, columns)
    found = ctx.template(WINDOW_PRODUCT, coarse.dtype, shape, (1, 0, 2), [coarse, fine], params)
    total = ctx.reduce(found, [0], "sum") if parts > 1 else _only(found)
    taps = reshape(total, (rows, *g.kernel, channels))
    return permute(taps, (0, nd + 1, *range(1, nd + 1)))


def _only(parts: Value) -> Value:
    """The one that there is."""
    return reshape(parts, parts.size[1:])
