"""Products of groups of rows: C[m, n] = sum over k of A[m, k] B[e, k, n], where row m belongs to
group e, as in the experts of a mixture. Rows behind the last group become 0.

Group e has the rows from ``ends[e - 1]`` (0 for the first) up to ``ends[e]``, which are data. So a
work-item looks for the rows that it computes: those of a chunk of ``MB`` rows, the chunks of all
groups counted through. There may be fewer chunks than work-items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod, same
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

#: Rows and vectors of a register tile, with 16 registers and with 32.
TILES = {16: (4, 2), 32: (6, 2)}
#: Tiles of rows to a work-item, which read each part of B from a cache nearby.
_ROWTILES = 8
#: Terms of a part: with 32 columns of floats 32 KiB, and a bound for the chain of additions.
_DEPTH = 256
#: On GPUs: rows and columns to a work-group of work-items side by side.
_SIMT_ROWS, _SIMT_COLUMNS = 8, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedParams(TemplateParams):
    """Of products of groups of rows (here) or of terms (grouped_terms.py).

    Sizes and strides in elements, static or symbolic. ``m n k``; ``groups``: how many there are.
    ``a_offset``, ``a_strides``: (row, k); ``b_offset``, ``b_strides``: (group, k, n), or (k, n)
    where groups are of terms. ``lanes``: elements of a register (vector). ``acc``: ``"float"`` or
    ``"double"``, as the sums.
    """

    m: Size
    n: Size
    k: Size
    groups: Size
    a_offset: Size
    a_strides: tuple[Size, ...]
    b_offset: Size
    b_strides: tuple[Size, ...]
    lanes: int


def _tile(device: DeviceInfo, profile: Profile, p: GroupedParams) -> dict[str, object]:
    shared = {"by_columns": same(p.b_strides[1], 1), "ldn_is_one": same(p.b_strides[2], 1)}
    if profile == "simt":
        return {**shared, "W": 1, "NR": 1, "MB": _SIMT_ROWS, "LX": _SIMT_COLUMNS}
    rows, vectors = TILES[32 if device.vector_width >= 16 else 16]
    return {
        **shared,
        "W": p.lanes,
        "NV": vectors,
        "NR": vectors * p.lanes,
        "MR": rows,
        "MB": rows * _ROWTILES,
        # Whole vectors along k are transposed.
        "KB": ceil_div(_DEPTH, p.lanes) * p.lanes,
        "LX": 1,
    }


def _launch(p: GroupedParams, tile: Tile) -> LaunchGrid:
    items = size_ceil_div(p.n, tile["NR"] * tile["LX"]) * tile["LX"]
    # Each group, and what is behind the last, may end with a chunk that is not full.
    return LaunchGrid((items, size_ceil_div(p.m, tile["MB"]) + p.groups + 1), (tile["LX"], 1))


def _flops(p: GroupedParams) -> Size:
    return prod((2, p.m, p.n, p.k))


def _bytes(p: GroupedParams) -> Size:
    b = prod((p.groups, p.k, p.n))
    return p.itemsize * (prod((p.m, p.k)) + b + prod((p.m, p.n)))


def _reference(a: np.ndarray, b: np.ndarray, ends: np.ndarray) -> np.ndarray:
    result = np.zeros((a.shape[0], b.shape[2]))
    begin = 0
    for matrix, end in zip(b.astype(np.float64), ends.tolist(), strict=True):
        result[begin:end] = a[begin:end].astype(np.float64) @ matrix
        begin = end
    return result


GROUPED: TemplateSpec[GroupedParams] = TemplateSpec(
    name="grouped",
    params=GroupedParams,
    file="gemm/grouped_gemm.cl.jinja",
    out_space=lambda p: (p.m, p.n),
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
