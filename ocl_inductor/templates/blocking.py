"""Register and cache blocking of matrix products, shared by gemm, conv and their lowerings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.ir.params import bytes_of
from ocl_inductor.templates.tile_tables import TileTable, tile_table

#: Rounds of the innermost loop from a prefetch to the use of its line.
PREFETCH_ROUNDS = 12
#: Longest chain of additions into one accumulator: rounding errors grow with it, and the libraries
#: that eager uses block sums as well.
MAX_K_CHAIN = 384
#: Sums that wait for the next part of theirs: a share of a second-level cache.
_MAX_WAITING = 1 / 4


def numbers_of_a_line(device: DeviceInfo, nbytes: int) -> int:
    """Numbers of ``nbytes`` bytes that a cache line holds."""
    return device.caches.line // nbytes


def prefetching(device: DeviceInfo, nr: int, acc: str, rounds: Size) -> dict[str, object]:
    """What a template says about prefetching rows of ``nr`` elements of B.

    ``prefetched``: positions in a row, one in each cache line; ``ahead``: rows ahead. Nothing where
    the device cannot, or where a loop of that many ``rounds`` ends before it would help.
    """
    elements = numbers_of_a_line(device, bytes_of(acc))
    useful = device.prefetch and not (is_static(rounds) and int(rounds) < PREFETCH_ROUNDS)
    return {"prefetched": range(0, nr, elements) if useful else (), "ahead": PREFETCH_ROUNDS}


def inner_loop(device: DeviceInfo) -> dict[str, object]:
    """What a template says about its innermost loop: how many rounds to ``unroll``."""
    return {"unroll": tile_table(device).unroll}


@dataclass(frozen=True, slots=True)
class Blocking:
    """``mr`` rows by ``nv`` vectors of ``lanes`` elements; ``mb`` tiles to a work-item."""

    mr: int
    nv: int
    lanes: int
    mb: int

    @property
    def nr(self) -> int:
        return self.nv * self.lanes


def lanes_of(device: DeviceInfo, acc: str) -> int:
    """Elements of ``acc`` in one register."""
    return max(device.vector_width // (2 if acc == "double" else 1), 1)


def register_tile_rows(device: DeviceInfo, vectors: int) -> int:
    """Rows of scalars that a register tile of ``vectors`` vectors a row has room for."""
    return tile_table(device).rows[vectors]


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def size_ceil_div(a: Size, b: int) -> Size:
    """Rounded-up quotient of a static or symbolic size."""
    if is_static(a):
        return ceil_div(int(a), b)
    from torch.utils._sympy.functions import FloorDiv

    return FloorDiv(a + (b - 1), b)


def choose_blocking(
    device: DeviceInfo, acc: str, rows: int, columns: int, batch: int, b_bytes: int
) -> Blocking:
    """Tile for a product of ``rows`` x ``columns`` repeated ``batch`` times.

    The arguments may be typical values of symbolic sizes. ``b_bytes`` is the size of B: when it is
    large and A is short, one work-item takes all rows, so that B is read from memory once.
    """
    lanes = lanes_for(device, acc, columns)
    table = tile_table(device)
    vectors = ceil_div(columns, lanes)

    def time(nv: int) -> float:
        return _relative_time(table, vectors, nv, min(rows, table.rows[nv]))

    nv = min((2, *(n for n in table.rows if n != 2)), key=time)  # 2, of those alike
    return _blocking(device, nv, lanes, rows, columns, batch, b_bytes)


def candidate_blockings(
    device: DeviceInfo, acc: str, rows: int, columns: int, batch: int, b_bytes: int
) -> tuple[Blocking, ...]:
    """What is worth trying for such a product, :func:`choose_blocking`'s first, none twice.

    Each number of vectors with as many rows as there is room for, and with fewer rows to an item.
    """
    chosen = choose_blocking(device, acc, rows, columns, batch, b_bytes)
    lanes = lanes_for(device, acc, columns)
    found = [chosen]
    for nv in tile_table(device).rows:
        if nv > ceil_div(columns, lanes):
            continue
        whole = _blocking(device, nv, lanes, rows, columns, batch, b_bytes)
        tiles = ceil_div(rows, whole.mr)
        found += [whole, *(replace(whole, mb=ceil_div(tiles, n)) for n in (1, 4, 16) if n <= tiles)]
    return tuple(dict.fromkeys(found))


def choose_strip(device: DeviceInfo, acc: str, rows: int, columns: int) -> Blocking:
    """Register tile that lies inside ``rows`` x ``columns``; ``mb`` is 1."""
    lanes = lanes_of(device, acc)
    while lanes > columns:
        lanes //= 2
    table, vectors = tile_table(device), ceil_div(columns, lanes)

    def strip(nv: int) -> Blocking:
        tiles = ceil_div(rows, table.rows[nv])
        return Blocking(ceil_div(rows, tiles), nv, lanes, 1)

    def time(nv: int) -> float:
        return _relative_time(table, vectors, nv, strip(nv).mr)

    return strip(min((nv for nv in table.rows if nv <= vectors), key=time))


def _relative_time(table: TileTable, vectors: int, nv: int, rows: int) -> float:
    """Of a row of ``vectors`` in register tiles of ``rows`` by ``nv`` vectors."""
    # Short tiles wait for the accumulation of the one product before the next can be added.
    latency = max(1.0, 8 / (rows * nv))
    return ceil_div(vectors, nv) * nv / table.speed[nv] * latency


def lanes_for(device: DeviceInfo, acc: str, columns: int) -> int:
    """Lanes for rows of ``columns``: fewer where most would idle."""
    lanes = lanes_of(device, acc)
    while lanes > 4 and columns <= lanes // 2:
        lanes //= 2
    return lanes


def _blocking(
    device: DeviceInfo, nv: int, lanes: int, rows: int, columns: int, batch: int, b_bytes: int
) -> Blocking:
    """Rows and tiles to an item that go with ``nv`` vectors in a row of a tile."""
    table = tile_table(device)
    tiles = max(ceil_div(rows, table.rows[nv]), 1)
    # Equal tiles waste less at the end than full ones and a rest.
    mr = max(ceil_div(rows, tiles), 1)
    tiles = max(ceil_div(rows, mr), 1)
    panels = ceil_div(ceil_div(columns, lanes), nv)
    mb = max(table.rows_per_item // mr, 1)
    if b_bytes > 2 * rows * columns * 4 and rows * 8 < columns * 4 + 1024:
        mb = tiles
    mb = _shared_out(device, mb, tiles, panels * batch)
    return Blocking(mr, nv, lanes, mb)


def with_tall_items(
    device: DeviceInfo, blocking: Blocking, rows: int, columns: int, batch: int
) -> Blocking:
    """``blocking`` with as many rows to a work-item as keep all compute units busy."""
    tiles, panels = max(ceil_div(rows, blocking.mr), 1), ceil_div(columns, blocking.nr)
    return replace(blocking, mb=_shared_out(device, tiles, tiles, panels * batch))


def with_few_sums(device: DeviceInfo, blocking: Blocking, itemsize: int) -> Blocking:
    """``blocking`` with tiles that leave room in a second-level cache for what they read."""
    tile = blocking.mr * blocking.nr * itemsize
    return replace(
        blocking, mb=max(1, min(blocking.mb, int(_MAX_WAITING * device.caches.l2) // tile))
    )


def _shared_out(device: DeviceInfo, mb: int, tiles: int, panels: int) -> int:
    """Tiles to an item: up to ``mb``, alike for all, and few enough to keep the device busy."""
    wanted = tile_table(device).items_per_unit * device.compute_units
    while mb > 1 and panels * ceil_div(tiles, mb) < wanted:
        mb = ceil_div(mb, 2)
    return ceil_div(tiles, ceil_div(tiles, mb))


@dataclass(frozen=True, slots=True)
class RowVectors:
    """``nv`` vectors of ``lanes`` rows to a work-item: a kernel whose lanes are rows."""

    lanes: int
    nv: int

    @property
    def rows(self) -> int:
        return self.nv * self.lanes


def choose_query_vectors(
    device: DeviceInfo, acc: str, rows: int, batch: int, most: int = 4
) -> RowVectors:
    """The first of :func:`candidate_query_vectors`."""
    return candidate_query_vectors(device, acc, rows, batch, most)[0]


def candidate_query_vectors(
    device: DeviceInfo, acc: str, rows: int, batch: int, most: int = 4
) -> list[RowVectors]:
    """For a kernel whose lanes are ``rows``, ``batch`` times; the most promising first.

    ``most``: vectors that there is room for. What counts is the time of the last core to finish:
    padding of the last block, blocks that do not share out evenly, and the speed of the register
    tile, here with the other operand read anew for each block.
    """
    lanes = lanes_for(device, acc, rows)
    speeds = tile_table(device).query_speed

    def cost(nv: int) -> float:
        items = ceil_div(rows, nv * lanes) * batch
        return ceil_div(items, device.compute_units) * nv / speeds[nv]

    known = [n for n in speeds if n <= most]
    known.reverse()  # the larger of two alike
    return [RowVectors(lanes, nv) for nv in sorted(known, key=cost)]
