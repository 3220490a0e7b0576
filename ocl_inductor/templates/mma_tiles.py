"""Tiles of products by a GPU's matrix instructions: how a work-group and its warps share one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.spec import LaunchGrid

#: Work-items of a warp; terms of a slab.
WARP, DEPTH = 32, 32
#: Bytes of a row or column of a slab.
_SLAB_BYTES = 2 * DEPTH


@dataclass(frozen=True, slots=True)
class MmaTile:
    """``rows`` x ``columns`` results of a work-group of ``warps_m`` x ``warps_n`` warps.

    ``slabs``: parts of 32 terms of both operands in local memory, all but one on their way.
    """

    rows: int
    columns: int
    warps_m: int
    warps_n: int
    slabs: int

    @property
    def items(self) -> int:
        return self.warps_m * self.warps_n * WARP

    @property
    def local_bytes(self) -> int:
        return (self.rows + self.columns) * _SLAB_BYTES * self.slabs


#: And the rate of each where all multiprocessors have enough of them. An H200, bfloat16, product of
#: 4096: 128 x 128 with four warps 425 TFLOP/s, with eight 333; 64 x 128 343; 64 x 64 267; 128 x 256
#: with eight warps 309 to 349.
_TILES: Mapping[MmaTile, float] = {
    MmaTile(128, 128, 2, 2, 3): 1.0,
    MmaTile(64, 128, 2, 2, 4): 0.81,
    MmaTile(128, 64, 2, 2, 4): 0.81,
    MmaTile(64, 64, 2, 2, 4): 0.63,
    MmaTile(32, 64, 1, 2, 4): 0.4,
    MmaTile(64, 32, 2, 1, 4): 0.4,
}
#: Work-items that keep a multiprocessor's matrix units busy.
_BUSY_ITEMS = 256
#: Terms that are worth a part of their own, and numbers of parts.
_MIN_PART = 256
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: What adding up parts costs, in products of one multiprocessor (1,600 a nanosecond): a launch, and
#: for each result and part to write and to read four bytes.
_LAUNCH, _RESULT = 5_000_000, 400


@dataclass(frozen=True, slots=True)
class MmaWork:
    """``batch`` times ``rows`` x ``columns`` sums of ``depth`` products."""

    rows: int
    columns: int
    batch: int
    depth: int


def choose_mma_tile(
    device: DeviceInfo, work: MmaWork, most_parts: int = _PARTS[-1]
) -> tuple[MmaTile, int]:
    """The tile, and in how many parts each sum is computed."""
    most = min(max(work.depth // _MIN_PART, 1), most_parts)
    ways = [(t, n) for t in fitting_mma_tiles(device) for n in _PARTS if n <= most]
    return min(ways, key=lambda way: _time(device, work, *way))


def fitting_mma_tiles(device: DeviceInfo) -> list[MmaTile]:
    """Those for which the device has room; none where it has for none."""
    return [
        t
        for t in _TILES
        if t.local_bytes <= device.local_mem_bytes and t.items <= device.max_work_group_size
    ]


def _time(device: DeviceInfo, work: MmaWork, tile: MmaTile, parts: int) -> float:
    """Products one after the other on the multiprocessor with most to do."""
    tiles = ceil_div(work.rows, tile.rows) * ceil_div(work.columns, tile.columns)
    turns = ceil_div(tiles * work.batch * parts, device.compute_units)
    together = min(turns * tile.items, _BUSY_ITEMS) / _BUSY_ITEMS
    depth = ceil_div(work.depth, parts) + tile.slabs * DEPTH
    time = turns * tile.rows * tile.columns * depth / (_TILES[tile] * together**0.5)
    if parts > 1:
        results = ceil_div(work.rows * work.columns * work.batch, device.compute_units)
        time += _LAUNCH + (parts + 1) * results * _RESULT
    return time


def mma_names(tile: MmaTile) -> dict[str, int]:
    """What the source calls the sizes of the tile."""
    return {
        "TM": tile.rows, "TN": tile.columns, "WM": tile.warps_m, "WN": tile.warps_n,
        "S": tile.slabs, "threads": tile.items,
        # Blocks of 16 rows and of 8 columns of a warp.
        "MI": tile.rows // tile.warps_m // 16, "NI": tile.columns // tile.warps_n // 8,
    }  # fmt: skip


def mma_launch(
    tile: Mapping[str, Any], rows: Size, columns: Size, products: Size = 1
) -> LaunchGrid:
    """Groups for so many products of ``rows`` x ``columns``, in one dimension (mma.cl.jinja)."""
    tiles = size_ceil_div(rows, tile["TM"]), size_ceil_div(columns, tile["TN"])
    return LaunchGrid((prod((products, *tiles, tile["threads"])),), (tile["threads"],))
