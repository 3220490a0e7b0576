"""Register and cache blocking of matrix products, shared by gemm, conv and their lowerings.

The numbers come from a probe of register tiles (1024³, float32, two drivers): on 32 registers of 16
lanes 12x2 gives 406/390 GFLOP/s, 8x2 383/361, 6x2 341/358, 6x4 339/422; on 16 registers of 8 lanes
6x2 is best and 7x2 spills to a third.
"""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.device import DeviceInfo
from ocl_inductor.ir.index import Size, is_static

#: Relative speed of a tile with 1, 2, 3 or 4 vectors in a row (more vectors, fewer rows).
_EFFICIENCY = {1: 0.8, 2: 1.0, 3: 0.97, 4: 0.95}
_ROWS_32_REGISTERS = {1: 14, 2: 12, 3: 8, 4: 6}
_ROWS_16_REGISTERS = {1: 10, 2: 6, 3: 4, 4: 2}
#: Rows of A that one work-item takes: enough for a panel of B to be read from cache, few enough
#: for these rows to stay in the second level cache while the next panel uses them.
_ROWS_PER_ITEM = 96
#: Work-items for each compute unit that even out their speeds.
_ITEMS_PER_UNIT = 4


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
    table = _ROWS_32_REGISTERS if device.vector_width >= 16 else _ROWS_16_REGISTERS
    vectors = ceil_div(columns, lanes)

    def cost(nv: int) -> float:
        # Few rows leave room for more vectors, which hide the latency of the accumulation.
        used = min(rows, table[nv]) * nv
        latency = max(1.0, 8 / used)
        return ceil_div(vectors, nv) * nv / _EFFICIENCY[nv] * latency

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
