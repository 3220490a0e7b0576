"""How an iteration space is cut into work-items on a CPU device."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import sympy

from ocl_inductor.ir.index import Size, as_size, is_static, prod

#: Fewest elements that justify the start-up of a work-item (about a microsecond on CPU drivers).
MIN_ELEMENTS_PER_ITEM = 8192
#: Work-items for each compute unit: enough to balance the load, few enough to start cheaply.
ITEMS_PER_UNIT = 8
#: Longest run of the vector dimension that one tile covers.
MAX_TILE_COLUMNS = 8192


def ceil_div(a: Size, b: Size) -> Size:
    if is_static(a) and is_static(b):
        return -(-int(a) // int(b))
    from torch.utils._sympy.functions import FloorDiv

    return as_size(FloorDiv(sympy.sympify(a) + b - 1, sympy.sympify(b)))


@dataclass(frozen=True, slots=True)
class Work:
    """``tiles`` independent pieces, ``per_item`` of them to a work-item, ``items`` work-items."""

    tiles: Size
    per_item: Size
    items: Size


def usual_size(size: Size) -> int:
    """The size, or an estimate where it is symbolic."""
    return int(size) if is_static(size) else 1024


@functools.lru_cache(1024)  # equal prologue kernels repeat it; sympy takes 7 ms
def divide(tiles: Size, elements_per_tile: int, compute_units: int) -> Work:
    """Divide ``tiles`` pieces of about ``elements_per_tile`` elements over the compute units."""
    if is_static(tiles):
        count = max(int(tiles), 1)
        by_size = max(1, count * max(elements_per_tile, 1) // MIN_ELEMENTS_PER_ITEM)
        items = min(count, by_size, compute_units * ITEMS_PER_UNIT)
        per_item = -(-count // items)
        return Work(int(tiles), per_item, -(-count // per_item))
    per_item = ceil_div(tiles, compute_units * ITEMS_PER_UNIT)
    smallest = max(1, MIN_ELEMENTS_PER_ITEM // max(elements_per_tile, 1))
    per_item = sympy.Max(per_item, smallest)
    return Work(tiles, per_item, ceil_div(tiles, per_item))


def rows_of(sizes: list[Size]) -> Size:
    return prod(sizes)
