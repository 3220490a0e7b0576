"""Gradient of a convolution's weight as a product over windows, none of which is written (simt).

``result[a, part, (tap, b)] = sum over a part of the windows w of coarse[w, a] * fine[w + tap, b]``:
the tile of local_tile.cl.jinja. Its rows are channels of the ``coarse`` operand, which has an
element for each window, its columns those of the ``fine`` one, over which windows slide, tap by
tap. Both lie channels-last, without gaps.

Parameters (sizes in elements; ``n`` and spatial sizes may be symbolic):

* ``n``, ``windows``: spatial sizes of the coarse operand, ``extents``: of the fine one;
* ``kernel stride padding dilation``: one static entry for each spatial dimension;
* ``rows``, ``channels``: of the coarse and of the fine operand (static);
* ``row_offset``, ``fine_offset``: where the operands begin in their buffers;
* ``parts``, ``windows_per_part``: a multiple of ``slab`` unless there is one part;
* ``x y r_rows r_columns slab buffers unroll``: the tile; ``acc``: ``"float"`` or ``"double"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.conv.weight_gradient import WEIGHT_GRADIENT
from ocl_inductor.templates.gemm.gemm import simt_stores, whole_tiles
from ocl_inductor.templates.simt_tiles import index_type, operand_fill, tile_names, tile_of
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec


def _columns(p: Params) -> int:
    return math.prod(p["kernel"]) * int(p["channels"])


def _count(p: Params) -> Size:
    return prod((p["n"], *p["windows"]))


def _out_space(p: Params) -> tuple[Size, ...]:
    return (p["rows"], p["parts"], _columns(p))


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    tile, acc = tile_of(p), p["acc"]
    rows, channels, columns = int(p["rows"]), int(p["channels"]), _columns(p)
    extents = (
        p["row_offset"] + prod((_count(p), rows)),
        p["fine_offset"] + prod((p["n"], *p["extents"], channels)),
        prod(_out_space(p)),
    )
    count, names = _count(p), tile_names(tile)
    return {
        **names,
        "taps": math.prod(p["kernel"]),
        "columns": columns,
        "index": index_type(extents),
        "checked": any(q != 0 for q in p["padding"]),
        # Some slab reaches beyond the last window.
        "ragged": not is_static(count) or int(count) % tile.slab != 0,
        "fill_a": operand_fill(
            device, acc, tile, tile.rows, deep=False, step=1, others=(p["row_offset"], rows)
        ),
        "fill_b": operand_fill(
            device, acc, tile, tile.columns, deep=False, step=1, others=(p["fine_offset"], channels)
        ),
        "whole_rows": whole_tiles(rows, tile.rows),
        "whole_columns": whole_tiles(columns, tile.columns),
        **simt_stores(columns, names["VN"]),
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    columns = ceil_div(_columns(p), tile["TN"]) * tile["LX"]
    rows = ceil_div(int(p["rows"]), tile["TM"]) * tile["LY"]
    return LaunchGrid((columns, rows, p["parts"]), (tile["LX"], tile["LY"], 1))


def _flops(p: Params) -> Size:
    return prod((2, _count(p), p["rows"], _columns(p)))


def _bytes(p: Params) -> Size:
    coarse = prod((_count(p), p["rows"]))
    fine = prod((p["n"], *p["extents"], p["channels"]))
    return (8 if p["acc"] == "double" else 4) * (coarse + fine + prod(_out_space(p)))


WINDOW_PRODUCT = TemplateSpec(
    name="window_product",
    file="conv/window_product.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=WEIGHT_GRADIENT.reference,
)
