"""Few rows times the rows of a matrix: C[b, m, n] = sum over k of A[b, m, k] W[b, n, k].

Decoding a token, a classifier of one image, a short text: reading W from memory takes a good part
of the time. W is read once, where it lies; nothing is packed, so nothing is kept beside it. Vector
profile only.

Lanes lie along k: a register tile of ``r_rows`` rows of A by ``r_columns`` rows of W is as many
vectors of partial sums, whose lanes are added up at the end, all of a row of C at once. A block of
W, ``r_columns`` rows by ``k_block``, stays in the first-level cache while all rows of A pass by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod, same
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import (
    MAX_K_CHAIN,
    ceil_div,
    numbers_of_a_line,
    size_ceil_div,
)
from ocl_inductor.templates.gemm.gemm import store_edges
from ocl_inductor.templates.spec import Hint, LaunchGrid, Profile, TemplateSpec, Tile, tunable
from ocl_inductor.templates.trial import Trial, strided, tolerance_of_sum

#: So few rows make one tile: W is used as it comes from memory, which is what they wait for.
VERY_FEW = 4
#: Rows of A in a register tile of more: with eight rows of W 24 of 32 registers, with four 12 of
#: 16.
_TILE_ROWS = 3
#: A block of W has at most as many bytes as a first-level cache, which it shares with a tile of A,
#: and so many elements of a row: with 32 or 48 KiB, of 256 to 1024 the longest was the fastest.
_BLOCK_DEPTH = 1024
#: The next block of W is fetched while so many tiles use this one: 5 percent at 32 rows. With fewer
#: there is no time for it.
_MIN_TILES_TO_FETCH = 4
#: Work-items for each compute unit that even out their speeds.
_ITEMS_PER_UNIT = 8
#: Sums that a work-item keeps, and its columns where their number is not known.
_MAX_SUMS, _COLUMNS = 8192, 64


def _columns(device: DeviceInfo, p: SkinnyParams, hint: Hint) -> Sequence[int]:
    """Columns to a work-item that are worth trying: more and fewer than the default, 0."""
    usual, most = columns_of_item(device, replace(p, columns=0)), _most_columns(p)
    found = (usual * factor // 4 // p.lanes * p.lanes for factor in (1, 2, 8, 16))
    return tuple(dict.fromkeys((0, *(c for c in found if p.lanes <= c <= most and c != usual))))


@dataclass(frozen=True, slots=True, kw_only=True)
class SkinnyParams(TemplateParams):
    """Sizes and strides in elements, static or symbolic; ``acc``: ``"float"`` or ``"double"``.

    ``m n k``; ``batch``: the sizes of batch dimensions; ``k`` is at least ``lanes``. ``mb``: rows
    of A to a work-item. ``a_offset``, ``a_strides``: (\\*batch, row), ``w_offset``, ``w_strides``:
    (\\*batch, row); both have unit stride along k. ``w_itemsize``: bytes of an element of W, an
    integer if that is 1. ``lanes``: elements of a register. ``columns``: of C to a work-item,
    a multiple of ``lanes``; 0 for :func:`columns_of_item`'s own choice.
    """

    m: Size
    n: Size
    k: Size
    batch: tuple[Size, ...]
    mb: int
    a_offset: Size
    a_strides: tuple[Size, ...]
    w_offset: Size
    w_strides: tuple[Size, ...]
    w_itemsize: int
    lanes: int
    columns: int = field(default=0, metadata=tunable(_columns))


def _out_space(p: SkinnyParams) -> tuple[Size, ...]:
    return (*p.batch, p.m, p.n)


def _register_tile(device: DeviceInfo, lanes: int, rows: int) -> tuple[int, int]:
    """Rows of A and of W, a power of two, in a register tile for ``rows`` rows of A."""
    plenty = device.vector_width >= 16  # 32 registers
    tiles = 1 if rows <= VERY_FEW else ceil_div(rows, _TILE_ROWS)
    r_rows = ceil_div(rows, tiles)
    r_columns = min((24 if plenty else 12) // r_rows, 8, lanes)
    # The template adds up at most four lanes that are left of each sum.
    return r_rows, max(1 << (r_columns.bit_length() - 1), lanes // 4)


def columns_of_item(device: DeviceInfo, p: SkinnyParams) -> int:
    """Columns of C to a work-item: whole vectors, few enough to keep all compute units busy."""
    if p.columns:
        return p.columns
    lanes, n, most = p.lanes, p.n, _most_columns(p)
    if not is_static(n):
        return min(ceil_div(_COLUMNS, lanes) * lanes, most)
    blocks = max(int(n) // (lanes * device.compute_units * _ITEMS_PER_UNIT), 1)
    return min(blocks * lanes, most)


def _most_columns(p: SkinnyParams) -> int:
    return max(_MAX_SUMS // p.mb // p.lanes, 1) * p.lanes


def fetches_next(device: DeviceInfo, r_columns: int, p: SkinnyParams) -> bool:
    """Whether the rows of W that come next are fetched while these are read.

    A core that reads 8 short rows side by side comes to other pages each microsecond, where what
    fetches ahead by itself begins anew. Rows follow one another, and as many again stay in an
    eighth of a second-level cache. A decoder of 134 million parameters, tokens a second without and
    with it, an Intel Xeon of family 6, model 167: bfloat16 55 and 61, int8 63 and 93; float32,
    whose rows take twice as long, 45 and 40.
    """
    narrow = p.w_itemsize <= 2 and p.mb <= VERY_FEW
    if not device.prefetch or not narrow or not is_static(p.k):
        return False
    held = r_columns * int(p.k) * p.w_itemsize
    return same(p.w_strides[-1], p.k) and held <= device.caches.l2 // 8


def _depth(device: DeviceInfo, r_columns: int, p: SkinnyParams, tiles: int) -> int:
    """Elements of a row of W to a block, a multiple of ``lanes``."""
    # Rounding errors grow with the length of a chain of additions.
    depth = MAX_K_CHAIN * p.lanes
    if tiles > 1:
        depth = min(depth, _BLOCK_DEPTH, device.caches.l1 // (r_columns * p.itemsize))
    return depth // p.lanes * p.lanes


def _tile(device: DeviceInfo, profile: Profile, p: SkinnyParams) -> dict[str, object]:
    lanes, n, k = p.lanes, p.n, p.k
    r_rows, r_columns = _register_tile(device, lanes, p.mb)
    tiles = ceil_div(p.mb, r_rows)
    depth = _depth(device, r_columns, p, tiles)
    k_block = 0 if is_static(k) and int(k) <= depth else depth
    ahead = not k_block and fetches_next(device, r_columns, p)
    return {
        "profile": profile,
        "out_prefix": [*(f"bi{d}" for d in range(len(p.batch))), "m"],
        "LANES": lanes,
        "RR": r_rows,
        "RC": r_columns,
        "MB": p.mb,
        "NB": columns_of_item(device, p),
        "k_block": k_block,
        # Cache lines that one round reads, of the next rows.
        "ahead": max(r_columns * lanes * p.w_itemsize // device.caches.line, 1) if ahead else 0,
        "rest": not is_static(k) or int(k) % lanes != 0,
        "step": ceil_div(depth, tiles * lanes) * lanes
        if device.prefetch and tiles >= _MIN_TILES_TO_FETCH
        else 0,
        "line": max(numbers_of_a_line(device, p.w_itemsize), lanes),
        "w_bytes": p.w_itemsize == 1,
        **store_edges(n, lanes, lanes),
    }


def _launch(p: SkinnyParams, tile: Tile) -> LaunchGrid:
    panels, rows = size_ceil_div(p.n, tile["NB"]), size_ceil_div(p.m, tile["MB"])
    return LaunchGrid((panels, rows, prod(p.batch)), (1, 1, 1))


def _flops(p: SkinnyParams) -> Size:
    return prod((2, *p.batch, p.m, p.n, p.k))


def _bytes(p: SkinnyParams) -> Size:
    batch, matrices = prod(p.batch), 1
    for size, stride in zip(p.batch, p.w_strides, strict=False):
        matrices = prod((matrices, 1 if stride == 0 else size))
    few = prod((p.itemsize, batch, p.m, p.n + p.k))
    return few + prod((p.w_itemsize, matrices, p.n, p.k))


def _reference(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.matmul(a.astype(np.float64), w.astype(np.float64).swapaxes(-1, -2))


def _trial(p: SkinnyParams, random: np.random.Generator) -> Trial[SkinnyParams] | None:
    """None for a W of another type than the sums."""
    if p.w_itemsize != p.itemsize:
        return None
    a_buffer, a = strided(random, p.a_offset, (*p.batch, p.m, p.k), (*p.a_strides, 1), p.acc)
    w_buffer, w = strided(random, p.w_offset, (*p.batch, p.n, p.k), (*p.w_strides, 1), p.acc)
    return Trial(p, (a_buffer, w_buffer), _reference(a, w), tolerance_of_sum(p.acc, int(p.k)))


FEW_ROWS: TemplateSpec[SkinnyParams] = TemplateSpec(
    name="skinny_gemm",
    params=SkinnyParams,
    file="gemm/skinny_gemm.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
    trial=_trial,
)
