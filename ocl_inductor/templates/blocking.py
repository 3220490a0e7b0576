"""Register and cache blocking of matrix products, shared by gemm, conv and their lowerings.

The numbers come from probes of register tiles (float32; GFLOP/s on Intel's driver / PoCL 3.1). On
32 registers of 16 lanes, weights not in cache, prefetched: 512x768x768 8x3 360/342, 6x4 360/337,
12x2 333/339; 512x3072x768 358/363, 352/345, 328/346; with 96 rows to a work-item instead of 256,
12x2 drops to 288/268 without prefetching and 315/308 with it; MKL 337 and 357. On 16 registers of 8
lanes 6x2 is best and 7x2 spills to a third.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ocl_inductor.device import DeviceInfo
from ocl_inductor.ir.index import Size, is_static

#: Relative speed of a tile with 1, 2, 3 or 4 vectors in a row (more vectors, fewer rows).
_EFFICIENCY_32_REGISTERS = {1: 0.8, 2: 0.93, 3: 1.0, 4: 0.98}
_EFFICIENCY_16_REGISTERS = {1: 0.8, 2: 1.0, 3: 0.97, 4: 0.95}
_ROWS_32_REGISTERS = {1: 14, 2: 12, 3: 8, 4: 6}
_ROWS_16_REGISTERS = {1: 10, 2: 6, 3: 4, 4: 2}
#: Rows of A that one work-item takes: enough to hide the reading of a panel of B from memory, few
#: enough for these rows to stay in the second level cache while the next panel uses them.
_ROWS_PER_ITEM = 256
#: Work-items for each compute unit that even out their speeds.
_ITEMS_PER_UNIT = 4


#: Rounds of the innermost loop from a prefetch to the use of its line.
PREFETCH_ROUNDS = 12
_LINE_BYTES = 64


def prefetching(device: DeviceInfo, nr: int, acc: str, rounds: Size) -> dict[str, Any]:
    """What a template says about prefetching rows of ``nr`` elements of B.

    ``prefetched``: positions in a row, one in each cache line; ``ahead``: rows ahead. Nothing where
    the device cannot, or where a loop of that many ``rounds`` ends before it would help.
    """
    elements = _LINE_BYTES // (8 if acc == "double" else 4)
    useful = device.prefetch and not (is_static(rounds) and int(rounds) < PREFETCH_ROUNDS)
    return {"prefetched": range(0, nr, elements) if useful else (), "ahead": PREFETCH_ROUNDS}


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
    wide = device.vector_width >= 16
    return (_ROWS_32_REGISTERS if wide else _ROWS_16_REGISTERS)[vectors]


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
    full = lanes_of(device, acc)
    lanes = full
    while lanes > 4 and columns <= lanes // 2:
        lanes //= 2
    wide = device.vector_width >= 16
    table = _ROWS_32_REGISTERS if wide else _ROWS_16_REGISTERS
    efficiency = _EFFICIENCY_32_REGISTERS if wide else _EFFICIENCY_16_REGISTERS
    vectors = ceil_div(columns, lanes)

    def cost(nv: int) -> float:
        # Few rows leave room for more vectors, which hide the latency of the accumulation.
        used = min(rows, table[nv]) * nv
        latency = max(1.0, 8 / used)
        return ceil_div(vectors, nv) * nv / efficiency[nv] * latency

    nv = min((2, 1, 3, 4), key=cost)
    tiles = max(ceil_div(rows, table[nv]), 1)
    # Equal tiles waste less at the end than full ones and a rest.
    mr = max(ceil_div(rows, tiles), 1)
    tiles = max(ceil_div(rows, mr), 1)
    panels = ceil_div(vectors, nv)
    mb = max(_ROWS_PER_ITEM // mr, 1)
    if b_bytes > 2 * rows * columns * 4 and rows * 8 < columns * 4 + 1024:
        mb = tiles
    wanted = _ITEMS_PER_UNIT * device.compute_units
    while mb > 1 and panels * batch * ceil_div(tiles, mb) < wanted:
        mb = ceil_div(mb, 2)
    # Equal chunks.
    mb = ceil_div(tiles, ceil_div(tiles, mb))
    return Blocking(mr, nv, lanes, mb)


def choose_query_vectors(device: DeviceInfo, acc: str, rows: int, batch: int) -> tuple[int, int]:
    """Lanes, and vectors to a work-item, for a kernel whose lanes are ``rows``, ``batch`` times.

    What counts is the time of the last core to finish: padding of the last block, blocks that do
    not share out evenly, and the speed of the register tile, here with the other operand read anew
    for each block (attention with 1 to 4 vectors of 16, GFLOP/s: 144, 190, 202, 228 over 1024 keys
    of 64; 158, 176, 169, 168 with 197 queries, which leave 4 vectors partly idle).
    """
    lanes = lanes_of(device, acc)
    while lanes > 4 and rows <= lanes // 2:
        lanes //= 2
    wide = device.vector_width >= 16
    speeds = {1: 0.75, 2: 0.93, 3: 0.95, 4: 1.0} if wide else {1: 0.7, 2: 1.0}

    def cost(nv: int) -> float:
        items = ceil_div(rows, nv * lanes) * batch
        return ceil_div(items, device.compute_units) * nv / speeds[nv]

    return lanes, min(reversed(speeds), key=cost)
