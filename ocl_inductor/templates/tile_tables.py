"""Register tiles that are good without trying: one entry a device, a class of devices, or all.

A device's own entry comes first, then its class's (by the width of its vectors), then the default.
An entry states what it was measured on. ``mode="max-autotune"`` measures instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ocl_inductor.device.facts import DeviceInfo


@dataclass(frozen=True, slots=True)
class TileTable:
    """Register tiles of the vector profile, by the number of vectors in a row of the tile.

    ``device``: text in the name of the device that the entry is for; ``min_width``: elements of a
    float32 vector that a device of the class has at least. ``rows``: rows of scalars that there is
    room for. ``speed``: what the tile reaches relative to the best, the other operand packed;
    ``query_speed``: the same where it is read anew for each block (attention). ``rows_per_item``:
    rows of A that one work-item takes: enough to hide the reading of a panel of B from memory, few
    enough for these rows to stay in the second level cache while the next panel uses them.
    ``items_per_unit``: work-items for each compute unit that even out their speeds. ``unroll``:
    rounds of an innermost loop in one go. ``row_pointers``: rows of a tile that may each have a
    pointer of their own.
    """

    measured: str
    rows: Mapping[int, int]
    speed: Mapping[int, float]
    query_speed: Mapping[int, float]
    device: str = ""
    min_width: int = 0
    rows_per_item: int = 256
    items_per_unit: int = 4
    unroll: int = 1
    row_pointers: int = 0


def _table(**values: float) -> Mapping[int, float]:
    return MappingProxyType({int(k[1:]): v for k, v in values.items()})


#: Most specific first; the last one is for any device.
TILE_TABLES = (
    TileTable(
        measured=(
            "AVX-512, 32 registers of 16 lanes, two cores; GFLOP/s with the two drivers that "
            "pip installs for CPUs, weights not in cache, prefetched: 512x768x768 8x3 360/342, "
            "6x4 360/337, 12x2 333/339; 512x3072x768 358/363, 352/345, 328/346; with 96 rows to "
            "a work-item instead of 256, 12x2 drops to 288/268 without prefetching and 315/308 "
            "with it; MKL 337 and 357. Attention with 1 to 4 vectors: 144, 190, 202, 228 over "
            "1024 keys of 64. On a Zen 5, 1024x1024x1024: 8x3 491/480, 6x4 505/493, 12x2 495/484, "
            "14x2 474/466; unroll, row_pointers there: level, and four rounds in one go a third "
            "slower."
        ),
        min_width=16,
        rows=MappingProxyType({1: 14, 2: 12, 3: 8, 4: 6}),
        speed=_table(_1=0.8, _2=0.93, _3=1.0, _4=0.98),
        query_speed=_table(_1=0.75, _2=0.93, _3=0.95, _4=1.0),
    ),
    TileTable(
        measured=(
            "16 registers of 8 lanes: 6x2 is best and 7x2 spills to a third. unroll, row_pointers: "
            "the 12 multiply-adds of a 6x2 tile need 20 instructions, 29 with the loop's own and "
            "additions of addresses (Zen 3). Linear layers of BERT's and ViT's shapes became 1.13 "
            "to 1.24 times as fast with the drivers for CPUs, medians of interleaved calls; 8 "
            "rounds are level with 4."
        ),
        unroll=4,
        row_pointers=8,
        rows=MappingProxyType({1: 10, 2: 6, 3: 4, 4: 2}),
        speed=_table(_1=0.8, _2=1.0, _3=0.97, _4=0.95),
        query_speed=_table(_1=0.7, _2=1.0),
    ),
)


def tile_table(device: DeviceInfo) -> TileTable:
    """The entry for a device."""
    fitting = [t for t in TILE_TABLES if device.vector_width >= t.min_width]
    own = [t for t in fitting if t.device and t.device in device.name]
    return next(iter(own or (t for t in fitting if not t.device)))
