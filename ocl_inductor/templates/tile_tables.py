"""Register tiles of the vector profile that are good without trying.

``mode="max-autotune"`` measures instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ocl_inductor.templates.tuned_values import tuned_values


@dataclass(frozen=True, slots=True)
class TileTable:
    """By the number of vectors in a row of the tile.

    ``rows``: rows of scalars that there is room for. ``speed``: what the tile reaches relative to
    the best, the other operand packed; ``query_speed``: the same where it is read anew for each
    block (attention). ``rows_per_item``: rows of A that one work-item takes: enough to hide the
    reading of a panel of B from memory, few enough for these rows to stay in the second level cache
    while the next panel uses them. ``items_per_unit``: work-items for each compute unit that even
    out their speeds. ``unroll``: rounds of an innermost loop in one go. ``row_pointers``: rows of a
    tile that may each have a pointer of their own.
    """

    rows: Mapping[int, int]
    speed: Mapping[int, float]
    query_speed: Mapping[int, float]
    rows_per_item: int
    items_per_unit: int
    unroll: int
    row_pointers: int


tile_table = tuned_values(TileTable, "vector_tiles.json")
