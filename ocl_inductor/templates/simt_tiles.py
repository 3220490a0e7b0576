"""Tiles of the simt profile: work-groups that share slabs of both operands in local memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, same
from ocl_inductor.ir.params import bytes_of
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.tuned_values import tuned_values

#: Bytes of a vector that is read at once, where alignment allows.
VECTOR_BYTES = 16
#: Neighbouring results of a work-item, along both dimensions: a vector in local memory.
_NEIGHBOURS = 4
#: Work-items that run in step on most devices; a block of 8 x 4 of them reads 8 + 4 vectors of
#: local memory for each step, 16 x 2 read 18.
_BLOCK_X, _BLOCK_Y = 8, 4
#: Longest chain of additions to one result: rounding errors grow with it, as they do in the
#: libraries of GPUs. A longer sum is one of parts; registers for a second set of sums would cost
#: more, as fewer work-items would run side by side.
_MAX_CHAIN = 5120


@dataclass(frozen=True, slots=True)
class SimtCosts:
    """What a GPU's products are chosen by, in products of one compute unit.

    ``shapes``: (x, y, r_rows, r_columns, speed) of tiles where all compute units have enough of
    them, relative to the best: what is read from local memory and from outside for each product
    counts. ``busy_items``: work-items that keep one compute unit busy: fewer wait for memory and
    for each other. ``slab``: of tiles, where there is room. ``min_part``: terms that are worth a
    part of their own; ``parts``: numbers of them. What adding up parts costs: ``launch``, and for
    each result and part, to write and to read it, ``result``. ``large_unroll``: rounds side by side
    of tiles with many results, which leave few registers.
    """

    shapes: tuple[tuple[float, ...], ...]
    busy_items: int
    slab: int
    min_part: int
    parts: tuple[int, ...]
    launch: int
    result: int
    large_unroll: int

    @property
    def speeds(self) -> Mapping[tuple[int, int, int, int], float]:
        """The speed of each shape (x, y, r_rows, r_columns)."""
        return _speeds(self.shapes)


@cache
def _speeds(
    shapes: tuple[tuple[float, ...], ...],
) -> Mapping[tuple[int, int, int, int], float]:
    return {(int(x), int(y), int(r), int(c)): speed for x, y, r, c, speed in shapes}


simt_costs = tuned_values(SimtCosts, "simt_tiles.json")


@dataclass(frozen=True, slots=True)
class SimtTile:
    """``x`` x ``y`` work-items (columns, rows), each with ``r_rows`` x ``r_columns`` results.

    ``slab``: elements of the common dimension that are in local memory at a time; ``buffers``:
    slabs of each operand there, 2 where one is filled while the other is used; ``unroll``: rounds
    of the inner loop side by side, which need registers for what they read.
    """

    x: int
    y: int
    r_rows: int
    r_columns: int
    slab: int
    buffers: int = 2
    unroll: int = 2

    @property
    def rows(self) -> int:
        return self.y * self.r_rows

    @property
    def columns(self) -> int:
        return self.x * self.r_columns

    @property
    def items(self) -> int:
        return self.x * self.y


@dataclass(frozen=True, slots=True)
class Fill:
    """How ``items`` work-items move a slab of one operand, ``extent`` x ``slab``, to local memory.

    Neighbouring work-items read along the dimension that is dense in memory: the common one
    (``deep``), or the rows of A or columns of B. Each moves vectors of ``width`` elements, the
    first one at ``first_row``, ``first_k`` (C text), all of them at ``places`` from there.
    In local memory the extent is dense, so a deep fill transposes.
    """

    extent: int
    slab: int
    items: int
    deep: bool
    width: int

    @property
    def units(self) -> int:
        return self.extent * self.slab // self.width

    @property
    def run(self) -> int:
        """Vectors in a row of the dense dimension."""
        return (self.slab if self.deep else self.extent) // self.width

    @property
    def pitch(self) -> int:
        """Elements from one slice of the slab to the next: writing across them, work-items side
        by side would meet in one bank of the memory otherwise."""
        return self.extent + (_NEIGHBOURS if self.deep else 0)

    @property
    def first_row(self) -> str:
        return self._outer() if self.deep else self._inner()

    @property
    def first_k(self) -> str:
        return self._inner() if self.deep else self._outer()

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """(row, k) of each vector of a work-item, from its first."""
        found = tuple(self._steps())
        return found if self.deep else tuple((inner, outer) for outer, inner in found)

    @property
    def rows(self) -> tuple[int, ...]:
        """The different rows in ``places``."""
        return tuple(dict.fromkeys(row for row, _ in self.places))

    def kept_rows(self, whole: bool) -> tuple[int, ...]:
        """Those whose place in memory takes a register: where the extent is ``whole``, all rows are
        as far from the first in every work-item.
        """
        return (0,) if whole else self.rows

    @property
    def steps(self) -> tuple[int, ...]:
        """The different k in ``places``."""
        return tuple(dict.fromkeys(k for _, k in self.places))

    def _steps(self) -> Iterator[tuple[int, int]]:
        """(outer, inner) of each vector, in elements."""
        across = max(self.run // self.items, 1)
        down = max(self.items // self.run, 1)
        for i in range(ceil_div(self.units, self.items)):
            yield i // across * down, i % across * self.items * self.width

    def _inner(self) -> str:
        position = "lid" if self.run >= self.items else f"lid % {self.run}"
        return position if self.width == 1 else f"{position} * {self.width}"

    def _outer(self) -> str:
        return "0" if self.run >= self.items else f"lid / {self.run}"


def operand_fill(
    device: DeviceInfo,
    acc: str,
    tile: SimtTile,
    extent: int,
    *,
    deep: bool,
    step: Size,
    others: Iterable[Size],
) -> Fill:
    """How a slab of an operand with ``extent`` rows or columns in a tile is moved.

    ``step``: elements in memory between neighbours along the dense dimension; ``others``: offset,
    strides and sizes that are multiples of a vector where vectors are aligned.
    """
    width = vector_width(device, acc, tile.slab if deep else extent, step=step, others=others)
    return Fill(extent, tile.slab, tile.items, deep, width)


def vector_width(
    device: DeviceInfo, acc: str, extent: int, *, step: Size, others: Iterable[Size]
) -> int:
    """Elements that are read at once of ``extent`` along a dimension, ``step`` apart in memory.

    ``others``: offset, strides and sizes that are multiples of a vector where vectors are aligned.
    """
    width = min(VECTOR_BYTES // bytes_of(acc), extent)
    dense = same(step, 1) and device.aligned_buffers and extent % width == 0
    return width if dense and all(is_static(x) and int(x) % width == 0 for x in others) else 1


def index_type(extents: Iterable[Size]) -> str:
    """C type of positions in buffers of so many elements."""
    return "int" if all(is_static(n) and int(n) < 2**31 for n in extents) else "long"


def moving_type(index: str) -> str:
    """C type of a position in an operand that each slab moves on.

    It has no sign: compilers of some GPUs then add it to a buffer's address at no cost. An address
    that moves takes two registers and two additions for each vector on its way.
    """
    return "uint" if index == "int" else index


def extent_of(offset: Size, sizes: Sequence[Size], strides: Sequence[Size]) -> Size:
    """Elements up to the last one of a view."""
    return offset + sum(n * s for n, s in zip(sizes, strides, strict=True))


def tile_names(tile: SimtTile) -> dict[str, int]:
    """What the source calls the sizes of the tile."""
    return {
        "LX": tile.x, "LY": tile.y, "RM": tile.r_rows, "RN": tile.r_columns, "TK": tile.slab,
        "TM": tile.rows, "TN": tile.columns, "buffers": tile.buffers,
        "unroll": tile.unroll,
        # Neighbouring results: a vector of each operand in local memory.
        "VM": min(tile.r_rows, _NEIGHBOURS), "VN": min(tile.r_columns, _NEIGHBOURS),
        **work_item_blocks(tile.x, tile.y),
    }  # fmt: skip


def work_item_blocks(x: int, y: int) -> dict[str, int]:
    """Blocks of ``x`` x ``y`` work-items that run in step; 0: rows of them do."""
    whole = x % _BLOCK_X == 0 and y % _BLOCK_Y == 0
    return {"block_x": _BLOCK_X if whole else 0, "block_y": _BLOCK_Y}


@dataclass(frozen=True, slots=True)
class ProductWork:
    """``batch`` times ``rows`` x ``columns`` sums of ``depth`` products, or what is typical.

    ``extra_bytes``: what else the kernel keeps in local memory.
    """

    acc: str
    rows: int
    columns: int
    batch: int
    depth: int
    extra_bytes: int = 0


def choose_tile(device: DeviceInfo, work: ProductWork) -> tuple[SimtTile, int]:
    """The tile, and in how many parts each sum is computed: as many as keep the device busy."""
    least = ceil_div(work.depth, _MAX_CHAIN)
    costs = simt_costs(device)
    most = max(work.depth // costs.min_part, 1)
    parts = [n for n in costs.parts if least <= n <= most] or [least]
    ways = [(tile, n) for tile in _fitting_tiles(device, work) for n in parts]
    return min(ways, key=lambda way: relative_time(device, work, *way))


def candidate_tiles(device: DeviceInfo, work: ProductWork) -> tuple[SimtTile, ...]:
    """What is worth trying, :func:`choose_tile`'s first, none twice."""
    chosen, _ = choose_tile(device, work)
    found = [chosen]
    for tile in _fitting_tiles(device, work):
        if tile.rows < 2 * work.rows and tile.columns < 2 * work.columns and tile.items >= 64:
            found.append(tile)
    found.append(replace(chosen, slab=chosen.slab // 2 or 1))
    found += [replace(chosen, buffers=1), replace(chosen, unroll=8)]
    return tuple(dict.fromkeys(found))


def relative_time(device: DeviceInfo, work: ProductWork, tile: SimtTile, parts: int) -> float:
    """Products one after the other on the compute unit with most to do."""
    costs = simt_costs(device)
    rows, columns = max(work.rows, 1), max(work.columns, 1)
    tiles = ceil_div(rows, tile.rows) * ceil_div(columns, tile.columns)
    turns = ceil_div(tiles * work.batch * parts, device.compute_units)
    together = min(turns * tile.items, costs.busy_items) / costs.busy_items
    speed = costs.speeds[tile.x, tile.y, tile.r_rows, tile.r_columns] * together**0.5
    # Until the first slab is there, and to store the results.
    depth = ceil_div(work.depth, parts) + 2 * tile.slab
    time = turns * tile.rows * tile.columns * depth / speed
    if parts > 1:
        results = ceil_div(rows * columns * work.batch, device.compute_units)
        time += costs.launch + (parts + 1) * results * costs.result
    return time


def _fitting_tiles(device: DeviceInfo, work: ProductWork) -> list[SimtTile]:
    """Tiles with work-groups and slabs for which the device has room; at least one."""
    costs, found = simt_costs(device), []
    for x, y, r_rows, r_columns in costs.speeds:
        if x * y > device.max_work_group_size:
            continue
        if work.acc == "double" and r_rows * r_columns > 32:  # twice the registers
            continue
        room = device.local_mem_bytes - work.extra_bytes
        for slab, buffers in ((costs.slab, 2), (8, 2), (8, 1), (4, 1)):
            unroll = min(slab, costs.large_unroll if r_rows * r_columns > 16 else slab)
            tile = SimtTile(x, y, r_rows, r_columns, slab, buffers, unroll)
            if local_bytes(tile, work.acc) <= room:
                found.append(tile)
                break
    return found


def local_bytes(tile: SimtTile, acc: str) -> int:
    """Local memory of both operands' slabs, at most."""
    slice_elements = tile.rows + tile.columns + 2 * _NEIGHBOURS
    return tile.buffers * tile.slab * slice_elements * bytes_of(acc)
