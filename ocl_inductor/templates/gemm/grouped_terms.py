"""Products of groups of terms: C[e, m, n] = sum over the terms t of group e of A[m, t] B[t, n].

The gradient of the matrices of a grouped product (grouped_gemm.py). Group e has the terms from
``ends[e - 1]`` (0 for the first) up to ``ends[e]``, which are data; the matrix of an empty group is
0, and terms behind the last group count nowhere.
"""

from __future__ import annotations

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod, same
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.gemm.grouped_gemm import TILES, GroupedParams
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

#: Terms between additions to the sums of all: a bound for the chain of additions.
_DEPTH = 256
#: On GPUs: rows to a work-item and columns to a work-group of work-items side by side.
_SIMT_ROWS, _SIMT_COLUMNS = 8, 64


def _tile(device: DeviceInfo, profile: Profile, p: GroupedParams) -> dict[str, object]:
    shared = {"ldn_is_one": same(p.b_strides[1], 1), "KB": _DEPTH}
    if profile == "simt":
        return {**shared, "W": 1, "NV": 1, "NR": 1, "MR": _SIMT_ROWS, "LX": _SIMT_COLUMNS}
    rows, vectors = TILES[32 if device.vector_width >= 16 else 16]
    return {
        **shared,
        "W": p.lanes,
        "NV": vectors,
        "NR": vectors * p.lanes,
        "MR": rows,
        "LX": 1,
    }


def _launch(p: GroupedParams, tile: Tile) -> LaunchGrid:
    items = size_ceil_div(p.n, tile["NR"] * tile["LX"]) * tile["LX"]
    return LaunchGrid((items, size_ceil_div(p.m, tile["MR"]), p.groups), (tile["LX"], 1, 1))


def _flops(p: GroupedParams) -> Size:
    return prod((2, p.m, p.n, p.k))


def _bytes(p: GroupedParams) -> Size:
    c = prod((p.groups, p.m, p.n))
    return p.itemsize * (prod((p.m, p.k)) + prod((p.k, p.n)) + c)


def _reference(a: np.ndarray, b: np.ndarray, ends: np.ndarray) -> np.ndarray:
    begins = [0, *ends.tolist()[:-1]]
    wide = b.astype(np.float64)
    return np.stack([a[:, i:j] @ wide[i:j] for i, j in zip(begins, ends.tolist(), strict=True)])


GROUPED_TERMS: TemplateSpec[GroupedParams] = TemplateSpec(
    name="grouped_terms",
    params=GroupedParams,
    file="gemm/grouped_terms.cl.jinja",
    out_space=lambda p: (p.groups, p.m, p.n),
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
