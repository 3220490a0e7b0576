"""Scaled dot product attention of bfloat16 or float16 by a GPU's matrix instructions.

attention.py says what is computed; parts/mma.cl.jinja how the instructions multiply. As in T. Dao,
"FlashAttention-2" (2023), a warp has rows of its own, holds its queries, scores and results in
registers, and rounds weights to the half type for the second product; sums are float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.attention.attention import (
    ManyQueriesParams,
    attention_flops,
    attention_reference,
    columns_of,
    common_names,
    out_space,
)
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.gemm.mma_gemm import NEIGHBOURS, Half
from ocl_inductor.templates.mma_tiles import WARP, mma_launch
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

#: Head sizes in local memory and registers; others are filled up with zeros.
WIDTHS = (32, 64, 128)
_LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class MmaQueryTile:
    """``warps`` of 16 times ``blocks`` queries, with blocks of ``keys``."""

    warps: int
    blocks: int
    keys: int

    @property
    def rows(self) -> int:
        return self.warps * self.blocks * 16

    @property
    def items(self) -> int:
        return self.warps * WARP

    def local_bytes(self, width: int, v_width: int) -> int:
        """The queries at first; then two blocks of keys and values; then results of 16 rows."""
        width, v_width = padded(width), padded(v_width)
        blocks = 2 * self.keys * (width + v_width) * 2
        return max(blocks, self.rows * width * 2, self.warps * 16 * (v_width + 8) * 4)


#: By head size. Two blocks of queries read each key and value half as often, where there are
#: registers for both; a head of 128 has local memory for 32 keys.
_TILES = {
    32: (MmaQueryTile(4, 2, 64), MmaQueryTile(4, 1, 64)),
    64: (MmaQueryTile(4, 2, 64), MmaQueryTile(4, 1, 64)),
    128: (MmaQueryTile(4, 1, 32),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaAttentionParams(ManyQueriesParams):
    """Rows of Q, K and V have unit stride; offsets, other strides and widths are divisible by 8,
    which are 16 bytes; ``acc`` is "float", as is an additive mask.
    """

    half: Half
    tile: MmaQueryTile


def padded(width: int) -> int:
    """The least of ``WIDTHS`` that holds a head."""
    return next(w for w in WIDTHS if w >= width)


def choose_query_tile(
    device: DeviceInfo, rows: int, heads: int, width: int, v_width: int
) -> MmaQueryTile | None:
    """The largest tile of which each multiprocessor gets one, or the smallest that fits."""
    tiles = [
        t
        for t in _TILES[padded(max(width, v_width))]
        if t.local_bytes(width, v_width) <= device.local_mem_bytes
        and t.items <= device.max_work_group_size
    ]
    enough = (t for t in tiles if ceil_div(rows, t.rows) * heads >= device.compute_units)
    return next(enough, tiles[-1] if tiles else None)


def _tile(device: DeviceInfo, profile: Profile, p: MmaAttentionParams) -> dict[str, object]:
    width, v_width, columns = padded(p.width), padded(p.v_width), columns_of(p)
    return {
        **common_names("simt", p),
        "mma": device.mma,
        "half_type": p.half,
        "scale": f"{p.scale * _LOG2_E!r}f",
        "log2e": f"{_LOG2_E!r}f",
        "threads": p.tile.items,
        "MI": p.tile.blocks,
        "NI": v_width // 8,
        "TM": p.tile.rows,
        "TN": p.tile.keys,
        "WQ": width,
        "WV": v_width,
        "stage_step": p.tile.keys * (width + v_width) * 2,
        "local_bytes": p.tile.local_bytes(p.width, p.v_width),
        "VN": NEIGHBOURS if columns % NEIGHBOURS == 0 else 1,
        "whole_rows": False,
        "whole_columns": p.v_width == v_width,
        "sums_in_array": True,
    }


def _launch(p: MmaAttentionParams, tile: Tile) -> LaunchGrid:
    return mma_launch(tile, p.m, 1, prod(p.batch))


def _bytes(p: MmaAttentionParams) -> Size:
    queries = prod((p.m, 2 * p.width + 4 * columns_of(p)))
    keys = prod((2, p.n, p.width + p.v_width))
    return prod(p.batch) * (queries + keys)


MMA_ATTENTION: TemplateSpec[MmaAttentionParams] = TemplateSpec(
    name="mma_attention",
    params=MmaAttentionParams,
    file="attention/mma_attention.cl.jinja",
    out_space=out_space,
    tile=_tile,
    launch=_launch,
    flops=attention_flops,
    bytes=_bytes,
    reference=attention_reference,
)
