"""Gradient of a convolution's weight as a product over windows, none of which is written (simt).

``result[a, part, (tap, b)] = sum over a part of the windows w of coarse[w, a] * fine[w + tap, b]``:
the tile of local_tile.cl.jinja. Its rows are channels of the ``coarse`` operand, which has an
element for each window, its columns those of the ``fine`` one, over which windows slide, tap by
tap. Both lie channels-last, without gaps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.conv.weight_gradient import WindowsParams, weight_gradient_reference
from ocl_inductor.templates.gemm.gemm import simt_stores, whole_tiles
from ocl_inductor.templates.simt_tiles import SimtTile, index_type, operand_fill, tile_names
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowProductParams(WindowsParams):
    """``rows``, ``channels``: of the coarse and of the fine operand; ``row_offset``,
    ``fine_offset``: where they begin in their buffers. ``parts``, ``windows_per_part``: a multiple
    of the tile's ``slab`` unless there is one part."""

    rows: int
    channels: int
    row_offset: Size
    fine_offset: Size
    parts: int
    windows_per_part: int
    tile: SimtTile


def _columns(p: WindowProductParams) -> int:
    return math.prod(p.kernel) * p.channels


def _count(p: WindowProductParams) -> Size:
    return prod((p.n, *p.windows))


def _out_space(p: WindowProductParams) -> tuple[Size, ...]:
    return (p.rows, p.parts, _columns(p))


def _tile(device: DeviceInfo, profile: Profile, p: WindowProductParams) -> dict[str, object]:
    tile, acc = p.tile, p.acc
    rows, channels, columns = p.rows, p.channels, _columns(p)
    extents = (
        p.row_offset + prod((_count(p), rows)),
        p.fine_offset + prod((p.n, *p.extents, channels)),
        prod(_out_space(p)),
    )
    count, names = _count(p), tile_names(tile)
    return {
        **names,
        "taps": math.prod(p.kernel),
        "columns": columns,
        "index": index_type(extents),
        "checked": any(q != 0 for q in p.padding),
        # Some slab reaches beyond the last window.
        "ragged": not is_static(count) or int(count) % tile.slab != 0,
        "fill_a": operand_fill(
            device, acc, tile, tile.rows, deep=False, step=1, others=(p.row_offset, rows)
        ),
        "fill_b": operand_fill(
            device, acc, tile, tile.columns, deep=False, step=1, others=(p.fine_offset, channels)
        ),
        "whole_rows": whole_tiles(rows, tile.rows),
        "whole_columns": whole_tiles(columns, tile.columns),
        **simt_stores(columns, names["VN"]),
    }


def _launch(p: WindowProductParams, tile: Tile) -> LaunchGrid:
    columns = ceil_div(_columns(p), tile["TN"]) * tile["LX"]
    rows = ceil_div(p.rows, tile["TM"]) * tile["LY"]
    return LaunchGrid((columns, rows, p.parts), (tile["LX"], tile["LY"], 1))


def _flops(p: WindowProductParams) -> Size:
    return prod((2, _count(p), p.rows, _columns(p)))


def _bytes(p: WindowProductParams) -> Size:
    coarse = prod((_count(p), p.rows))
    fine = prod((p.n, *p.extents, p.channels))
    return p.itemsize * (coarse + fine + prod(_out_space(p)))


WINDOW_PRODUCT: TemplateSpec[WindowProductParams] = TemplateSpec(
    name="window_product",
    params=WindowProductParams,
    file="conv/window_product.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=weight_gradient_reference,
)
