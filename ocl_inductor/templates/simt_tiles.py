"""Tiles of the simt profile: work-groups that share slabs of both operands in local memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ocl_inductor.device_info import DeviceInfo
from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.templates.blocking import MAX_K_CHAIN


@dataclass(frozen=True, slots=True)
class SimtTile:
    """``side`` x ``side`` work-items, each with ``r_rows`` x ``r_columns`` results.

    ``slab``: elements of the common dimension that are in local memory at a time.
    """

    side: int
    r_rows: int
    r_columns: int
    slab: int

    def params(self) -> dict[str, int]:
        """As templates take it."""
        return asdict(self)


def tile_names(p: Mapping[str, Any], depth: Size) -> dict[str, int]:
    """What the source calls the sizes of the tile in a template's parameters.

    ``depth``: how many products are added up for a result.
    """
    side = p["side"]
    short = is_static(depth) and int(depth) <= MAX_K_CHAIN
    return {
        "chain": 0 if short else max(MAX_K_CHAIN // p["slab"], 1),
        "LX": side, "LY": side, "RM": p["r_rows"], "RN": p["r_columns"], "TK": p["slab"],
        "TM": side * p["r_rows"], "TN": side * p["r_columns"],
    }  # fmt: skip


def choose_tile(device: DeviceInfo, acc: str, rows: int, columns: int) -> SimtTile:
    """For ``rows`` x ``columns`` results or fewer."""
    side = 16 if device.max_work_group_size >= 256 else 8
    if device.max_work_group_size < 64:
        side = 4 if device.max_work_group_size >= 16 else 1
    r_rows = 4 if rows > 2 * side else (2 if rows > side else 1)
    r_columns = 4 if columns > 2 * side else (2 if columns > side else 1)
    return _fitting(device, acc, SimtTile(side, r_rows, r_columns, 16))


def candidate_tiles(device: DeviceInfo, acc: str, rows: int, columns: int) -> tuple[SimtTile, ...]:
    """What is worth trying, :func:`choose_tile`'s first, none twice."""
    chosen = choose_tile(device, acc, rows, columns)
    found = [chosen]
    for side in (8, 16):
        if side * side > device.max_work_group_size:
            continue
        for r_rows, r_columns in ((2, 2), (4, 2), (2, 4), (4, 4), (8, 4), (8, 8)):
            if side * r_rows < 2 * rows and side * r_columns < 2 * columns:
                found.append(_fitting(device, acc, SimtTile(side, r_rows, r_columns, 16)))
    found += [_fitting(device, acc, replace(chosen, slab=n)) for n in (8, 32)]
    return tuple(dict.fromkeys(found))


def _fitting(device: DeviceInfo, acc: str, tile: SimtTile) -> SimtTile:
    """The slab halved until both operands' fit in local memory, a column of padding included."""
    item = 8 if acc == "double" else 4
    per_slice = (tile.side * (tile.r_rows + tile.r_columns) + 2) * item
    slab = tile.slab
    while slab > 1 and slab * per_slice > device.local_mem_bytes:
        slab //= 2
    return replace(tile, slab=slab)
