"""Tiles of products by a GPU's matrix instructions: how a work-group and its warps share one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.spec import LaunchGrid, Tile
from ocl_inductor.templates.tuned_values import tuned_values

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


@dataclass(frozen=True, slots=True)
class MmaCosts:
    """What products by matrix instructions are chosen by, in products of one multiprocessor.

    ``tiles``: (rows, columns, warps_m, warps_n, slabs, rate), the rate relative to the best, where
    all multiprocessors have enough of them. ``busy_items``: work-items that keep a multiprocessor's
    matrix units busy. ``min_part``: terms that are worth a part of their own; ``parts``: numbers of
    them. What adding up parts costs: ``launch``, and for each result and part to write and to read
    four bytes ``result``.
    """

    tiles: tuple[tuple[float, ...], ...]
    busy_items: int
    min_part: int
    parts: tuple[int, ...]
    launch: int
    result: int

    @property
    def rates(self) -> Mapping[MmaTile, float]:
        """The rate of each tile."""
        return _rates(self.tiles)


@cache
def _rates(tiles: tuple[tuple[float, ...], ...]) -> Mapping[MmaTile, float]:
    return {MmaTile(*map(int, numbers)): rate for *numbers, rate in tiles}


mma_costs = tuned_values(MmaCosts, "mma_tiles.json")


@dataclass(frozen=True, slots=True)
class MmaWork:
    """``batch`` times ``rows`` x ``columns`` sums of ``depth`` products."""

    rows: int
    columns: int
    batch: int
    depth: int


def choose_mma_tile(
    device: DeviceInfo, work: MmaWork, most_parts: int | None = None
) -> tuple[MmaTile, int]:
    """The tile, and in how many parts each sum is computed."""
    costs = mma_costs(device)
    most = min(max(work.depth // costs.min_part, 1), most_parts or costs.parts[-1])
    ways = [(t, n) for t in fitting_mma_tiles(device) for n in costs.parts if n <= most]
    return min(ways, key=lambda way: _time(device, work, *way))


def fitting_mma_tiles(device: DeviceInfo) -> list[MmaTile]:
    """Those for which the device has room; none where it has for none."""
    return [
        t
        for t in mma_costs(device).rates
        if t.local_bytes <= device.local_mem_bytes and t.items <= device.max_work_group_size
    ]


def _time(device: DeviceInfo, work: MmaWork, tile: MmaTile, parts: int) -> float:
    """Products one after the other on the multiprocessor with most to do."""
    costs = mma_costs(device)
    tiles = ceil_div(work.rows, tile.rows) * ceil_div(work.columns, tile.columns)
    turns = ceil_div(tiles * work.batch * parts, device.compute_units)
    together = min(turns * tile.items, costs.busy_items) / costs.busy_items
    depth = ceil_div(work.depth, parts) + tile.slabs * DEPTH
    time = turns * tile.rows * tile.columns * depth / (costs.rates[tile] * together**0.5)
    if parts > 1:
        results = ceil_div(work.rows * work.columns * work.batch, device.compute_units)
        time += costs.launch + (parts + 1) * results * costs.result
    return time


def mma_names(tile: MmaTile) -> dict[str, int]:
    """What the source calls the sizes of the tile."""
    return {
        "TM": tile.rows, "TN": tile.columns, "WM": tile.warps_m, "WN": tile.warps_n,
        "S": tile.slabs, "threads": tile.items,
        # Blocks of 16 rows and of 8 columns of a warp.
        "MI": tile.rows // tile.warps_m // 16, "NI": tile.columns // tile.warps_n // 8,
        "sums_in_array": False,
    }  # fmt: skip


def mma_launch(tile: Tile, rows: Size, columns: Size, products: Size = 1) -> LaunchGrid:
    """Groups for so many products of ``rows`` x ``columns``, in one dimension (mma.cl.jinja)."""
    tiles = size_ceil_div(rows, tile["TM"]), size_ceil_div(columns, tile["TN"])
    return LaunchGrid((prod((products, *tiles, tile["threads"])),), (tile["threads"],))
