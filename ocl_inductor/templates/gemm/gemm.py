"""Batched matrix product C[b, m, n] = sum over k of A[b, m, k] B[b, k, n]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod, same
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import (
    MAX_K_CHAIN,
    Blocking,
    candidate_blockings,
    ceil_div,
    inner_loop,
    numbers_of_a_line,
    prefetching,
    size_ceil_div,
    with_few_sums,
    with_tall_items,
)
from ocl_inductor.templates.simt_tiles import (
    ProductWork,
    SimtTile,
    candidate_tiles,
    extent_of,
    index_type,
    moving_type,
    operand_fill,
    tile_names,
)
from ocl_inductor.templates.spec import Hint, LaunchGrid, Profile, TemplateSpec, Tile, tunable
from ocl_inductor.templates.tile_tables import tile_table
from ocl_inductor.templates.trial import Trial, panels, strided, tolerance_of_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductParams(TemplateParams):
    """What templates of batched products share. Sizes and strides in elements, static or symbolic.

    ``m n k``, and ``batch``: the sizes over which ``a_strides``, ``b_strides`` give batch strides;
    ``out_batch``: the same number of products as the result's own dimensions; ``out_order``: how
    (\\*out_batch, m) lie in memory, outermost first. Where the operands lie: ``a_offset``,
    ``a_strides``: (\\*batch, row, k), ``b_offset``, ``b_strides``: (\\*batch, k, n).

    ``k_chunk``: 0, or the terms of one partial sum: the first dimension of ``batch`` and
    ``out_batch`` then counts the parts, and its strides are those of a chunk.
    """

    m: Size
    n: Size
    k: Size
    batch: tuple[Size, ...]
    out_batch: tuple[Size, ...]
    out_order: tuple[int, ...]
    a_offset: Size
    a_strides: tuple[Size, ...]
    b_offset: Size
    b_strides: tuple[Size, ...]
    k_chunk: int = 0


def gemm_tiles(
    device: DeviceInfo, p: GemmParams, hint: Hint
) -> Sequence[Blocking] | Sequence[SimtTile]:
    """What is worth trying for a product that is whole, the default first.

    It depends on the layouts of the operands.
    """
    rows, columns = hint(p.m), hint(p.n)
    batches = hint(prod(p.batch)) if p.batch else 1
    if device.profile == "simt":
        return candidate_tiles(device, ProductWork(p.acc, rows, columns, batches, hint(p.k)))
    b_bytes = hint(prod((p.k, p.n))) * p.itemsize
    found = candidate_blockings(device, p.acc, rows, columns, batches, b_bytes)
    if p.k_part:
        found = tuple(dict.fromkeys(with_few_sums(device, x, p.itemsize) for x in found))
    if p.b_layout == "strided":
        tall = (with_tall_items(device, x, rows, columns, batches) for x in found)
        found = tuple(dict.fromkeys(tall))
    if p.b_layout == "rows":
        found = tuple(x for x in found if columns % x.nr == 0)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmParams(ProductParams):
    """``acc``: ``"float"`` or ``"double"``, the type of both operands.

    ``a_layout``: ``"strided"``; ``"panels"`` (vector only): A was packed as [..][tile][k][mr] with
    zero rows at the end, and ``a_strides`` holds only batch strides (0 where batches share A).
    ``b_layout``: ``"panels"``: B was packed as [..][panel][k][nr] with zero columns at the end, and
    ``b_strides`` holds only batch strides (0 where batches share B); ``"rows"``: unit stride in n,
    which is divisible by ``nr``, and no stride for it; ``"strided"``: with unit stride in k or in
    n, and k static where the profile is vector: each work-item packs the panel that it needs.

    ``k_part`` (vector): 0, or how many terms all tiles of a work-item add up before they go on, at
    most ``MAX_K_CHAIN``; B is not "strided" then. ``max_chain`` (vector): longest chain of
    additions. ``tile``: the blocking of the vector profile, or the tile of the simt profile.
    """

    a_layout: Literal["strided", "panels"]
    b_layout: Literal["strided", "panels", "rows"]
    k_part: int = 0
    max_chain: int = MAX_K_CHAIN
    tile: Blocking | SimtTile = field(metadata=tunable(gemm_tiles))

    @property
    def blocking(self) -> Blocking:
        """The tile of the vector profile."""
        assert isinstance(self.tile, Blocking)
        return self.tile


def product_space(p: ProductParams) -> tuple[Size, ...]:
    outer = (*p.out_batch, p.m)
    return (*(outer[d] for d in p.out_order), p.n)


#: The panel of B that is used and the one after it stay in a second-level cache together.
_MAX_NEXT_PANEL = 1 / 2
_MAX_ROWS_AHEAD = 512
#: An epilogue of up to this many characters is emitted for each register of a tile.
MAX_UNROLLED_STORE = 600
#: The same for vectors of the simt form: a loop over its results needs them in memory.
_MAX_UNROLLED_VECTOR_STORE = 5000


def store_edges(columns: Size, lanes: int, nr: int) -> dict[str, object]:
    """Which stores a vector tile needs for ``columns`` in panels of ``nr``.

    ``whole_vectors``: no column is left over after whole vectors; ``whole_panels``: nor any vector;
    ``one_panel``: there is only one.
    ``tail``: of columns left over, the shorter vectors that hold them, each as its first column and
    its lanes; empty: they are stored one by one. ``tail_vector``: where they are in their panel.
    """
    known = int(columns) if is_static(columns) else 0
    return {
        "tail": _tail(known % lanes),
        "tail_vector": known % nr // lanes,
        "vector_store": not known or known >= lanes,
        "scalar_store": not known or known % lanes != 0,
        "whole_vectors": bool(known) and known % lanes == 0,
        "whole_panels": bool(known) and known % nr == 0,
        "one_panel": 0 < known <= nr,
        "max_unrolled_store": MAX_UNROLLED_STORE,
    }


#: Each is an epilogue of its own in the source.
_MAX_TAIL_VECTORS = 2


def _tail(columns: int) -> tuple[tuple[int, int], ...]:
    found, first = [], 0
    while first < columns:
        lanes = 1 << ((columns - first).bit_length() - 1)
        found.append((first, lanes))
        first += lanes
    return tuple(found) if len(found) <= _MAX_TAIL_VECTORS else ()


def _tile(device: DeviceInfo, profile: Profile, p: GemmParams) -> dict[str, object]:
    # The names that the source gives to the coordinates of the result's rows.
    outer = [*(f"bo{d}" for d in range(len(p.out_batch))), "m"]
    prefix = [outer[d] for d in p.out_order]
    if isinstance(p.tile, SimtTile):
        return {"profile": "simt", "out_prefix": prefix, **_simt_tile(device, p, p.tile)}
    nr, mr, chunk, part = p.tile.nr, p.tile.mr, p.k_chunk, p.k_part
    depth = chunk or p.k
    packed_rows, whole = p.a_layout == "panels", whole_tiles(p.m, mr)
    own = ""
    if p.b_layout == "strided":
        own = "k" if same(p.b_strides[-2], 1) else "n"
    return {
        "profile": "vector",
        "out_prefix": prefix,
        "W": p.tile.lanes,
        "NV": p.tile.nv,
        "NR": nr,
        "MR": mr,
        "MB": p.tile.mb,
        "k_chunk": chunk,
        "k_part": part,
        "LINE": numbers_of_a_line(device, p.itemsize),
        "k_block": 0 if part or (is_static(depth) and int(depth) <= p.max_chain) else p.max_chain,
        "own_panel": own,
        "ragged_depth": bool(own) and any(int(d) % p.tile.lanes for d in (p.k, chunk)),
        **prefetching(device, nr, p.acc, 0 if own else depth),
        **_next_panel(device, p, p.tile),
        **inner_loop(device),
        "touching": device.prefetch,
        "hides_pointers": device.inline_assembly and mr <= tile_table(device).row_pointers,
        "packed_rows": packed_rows,
        "rows_far_apart": p.a_layout != "panels" and p.a_strides[-1] != 1,
        "whole_tiles": whole,
        # The last tile starts early enough to read mr rows, and stores those that are new.
        "moved_up": not whole and not packed_rows and is_static(p.m) and int(p.m) >= mr,
        **store_edges(p.n, p.tile.lanes, nr),
    }


def _simt_tile(device: DeviceInfo, p: GemmParams, tile: SimtTile) -> dict[str, object]:
    acc, m, n, k = p.acc, p.m, p.n, p.k
    *a_batch, a_row, a_k = p.a_strides
    *b_batch, b_k, b_column = p.b_strides
    a_deep, b_deep = not same(a_row, 1), not same(b_column, 1)
    a_others = (p.a_offset, *a_batch, *((a_row,) if a_deep else (a_k, m)))
    b_others = (p.b_offset, *b_batch, *((b_column,) if b_deep else (b_k, n)))
    chunk = p.k_chunk
    names = tile_names(tile)
    extents = (
        extent_of(p.a_offset, (*p.batch, m, k), p.a_strides),
        extent_of(p.b_offset, (*p.batch, k, n), p.b_strides),
        prod((*p.out_batch, m, n)),
    )
    index = index_type(extents)
    return {
        **names,
        "k_chunk": chunk,
        "index": index,
        "moving_type": moving_type(index),
        "fill_a": operand_fill(
            device, acc, tile, tile.rows,
            deep=a_deep, step=a_k if a_deep else a_row, others=a_others,
        ),
        "fill_b": operand_fill(
            device, acc, tile, tile.columns,
            deep=b_deep, step=b_k if b_deep else b_column, others=b_others,
        ),
        "whole_rows": whole_tiles(m, tile.rows),
        "whole_columns": whole_tiles(n, tile.columns),
        "whole_depth": all(whole_tiles(d, tile.slab) for d in (k, chunk)) and not same(k, 0),
        **simt_stores(n, names["VN"]),
    }  # fmt: skip


def simt_stores(columns: Size, neighbours: int) -> dict[str, object]:
    """How the simt form stores ``neighbours`` results of a row of ``columns``."""
    return {
        "vector_store": neighbours > 1 and whole_tiles(columns, neighbours),
        "max_unrolled_store": MAX_UNROLLED_STORE,
        "max_unrolled_vector_store": _MAX_UNROLLED_VECTOR_STORE,
    }


def whole_tiles(rows: Size, mr: int) -> bool:
    """Whether no row is known to be left over after tiles of ``mr`` rows."""
    return is_static(rows) and int(rows) % mr == 0


def _next_panel(device: DeviceInfo, p: GemmParams, tile: Blocking) -> dict[str, object]:
    """What is prefetched for the panel after this one: ``next_lines`` of each row, ``next_rows`` (C
    text) ahead. With few rows a panel takes about as long to read from memory as to be used.
    """
    nothing = {"next_lines": 0, "next_rows": ""}
    rows, bytes_of_row = p.k, tile.nr * p.itemsize
    parts = p.k_chunk or p.k_part
    if not device.prefetch or p.b_layout != "panels" or parts or not is_static(rows):
        return nothing
    if tile.mb == 1:
        # Used once: what comes next lies in the same panel first.
        return {"next_lines": tile.nv, "next_rows": f"min(K, {_MAX_ROWS_AHEAD}L)"}
    if int(rows) * bytes_of_row > _MAX_NEXT_PANEL * device.caches.l2:
        return nothing
    return {"next_lines": ceil_div(tile.nv, tile.mb), "next_rows": "K"}


def _launch(p: GemmParams, tile: Tile) -> LaunchGrid:
    batch = prod(p.batch)
    if tile["profile"] == "simt":
        columns = size_ceil_div(p.n, tile["TN"]) * tile["LX"]
        rows = size_ceil_div(p.m, tile["TM"]) * tile["LY"]
        return LaunchGrid((columns, rows, batch), (tile["LX"], tile["LY"], 1))
    chunks = size_ceil_div(p.m, tile["MR"] * tile["MB"])
    return LaunchGrid((size_ceil_div(p.n, tile["NR"]), chunks, batch), (1, 1, 1))


def _products(p: ProductParams) -> tuple[Size, ...]:
    """How many products there are, by batch dimension: partial sums are parts of one."""
    return p.batch[1:] if p.k_chunk else p.batch


def product_flops(p: ProductParams) -> Size:
    return prod((2, *_products(p), p.m, p.n, p.k))


def _bytes(p: GemmParams) -> Size:
    return product_bytes(p, p.itemsize, p.itemsize)


def product_bytes(p: ProductParams, operand: int, result: int) -> Size:
    """Of a product whose operands' and result's elements have so many."""
    products = _products(p)
    parts = len(p.batch) - len(products)

    def matrices(strides: Sequence[Size]) -> Size:
        """How many an operand has: a stride of 0 is a batch dimension that shares one."""
        return prod([n for n, s in zip(products, strides[parts:], strict=False) if s != 0])

    a = prod((matrices(p.a_strides), p.m, p.k))
    b = prod((matrices(p.b_strides), p.k, p.n))
    return operand * (a + b) + result * prod((*p.batch, p.m, p.n))


def product_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


def gemm_trial(p: GemmParams, random: np.random.Generator) -> Trial[GemmParams]:
    """Batch strides of panels are 0 or not: their values follow from the tile."""
    batch, m, n, k = p.batch, p.m, p.n, p.k
    a_strides, b_strides = p.a_strides, p.b_strides
    if p.a_layout == "panels":
        lying, columns, a_strides = panels(random, batch, p.a_strides, (k, m), p.blocking.mr, p.acc)
        a = columns.swapaxes(-1, -2)
    else:
        lying, a = strided(random, p.a_offset, (*batch, m, k), p.a_strides, p.acc)
    if p.b_layout == "panels":
        rows, b, b_strides = panels(random, batch, p.b_strides, (k, n), p.blocking.nr, p.acc)
    else:
        unit = (1,) if p.b_layout == "rows" else ()
        rows, b = strided(random, p.b_offset, (*batch, k, n), (*p.b_strides, *unit), p.acc)
    sizes = tuple(map(int, batch))
    a, b = (np.broadcast_to(x, (*sizes, *x.shape[-2:])) for x in (a, b))
    product = product_reference(a, b)
    product = product.reshape(*map(int, p.out_batch), *product.shape[-2:])
    expected = product.transpose((*p.out_order, product.ndim - 1))
    known = replace(p, a_strides=a_strides, b_strides=b_strides)
    return Trial(known, (lying, rows), expected, tolerance_of_sum(p.acc, int(k)))


GEMM: TemplateSpec[GemmParams] = TemplateSpec(
    name="gemm",
    params=GemmParams,
    file="gemm/gemm.cl.jinja",
    out_space=product_space,
    tile=_tile,
    launch=_launch,
    flops=product_flops,
    bytes=_bytes,
    reference=product_reference,
    trial=gemm_trial,
    asked_early=True,
)
