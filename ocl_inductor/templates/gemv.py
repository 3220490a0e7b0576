"""A few rows times the rows of a matrix: C[b, m, n] = sum over k of A[b, m, k] W[b, n, k].

What decoding one token, or one image's classifier, consists of. W is read once, where it lies, and
that is what takes the time: nothing is packed. The vector profile only.

Parameters (sizes and strides in elements, static or symbolic, but for ``m``):

* ``m``: rows of A, at most :data:`MAX_ROWS`; ``n k``; ``batch``: the sizes of batch dimensions;
* ``a_offset``, ``a_strides``: (\\*batch, row), ``w_offset``, ``w_strides``: (\\*batch, row); both
  have unit stride along k; ``w_itemsize``: bytes of an element of W;
* ``lanes``: elements of a register; ``acc``: ``"float"`` or ``"double"``, the type of the sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ocl_inductor.device_info import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.templates.blocking import MAX_K_CHAIN, size_ceil_div
from ocl_inductor.templates.gemm import store_edges
from ocl_inductor.templates.spec import Launch, Params, Profile, TemplateSpec

#: More rows of A are worth packing W for.
MAX_ROWS = 4
#: Work-items for each compute unit that even out their speeds.
_ITEMS_PER_UNIT = 8
#: Blocks of columns of one work-item where their number is not known.
_BLOCKS = 4


def _out_space(p: Params) -> tuple[Size, ...]:
    return (*p["batch"], p["m"], p["n"])


def _rows_at_once(device: DeviceInfo, m: int) -> int:
    """Rows of W that are read side by side: eight sums hide the latency of their additions."""
    plenty = device.vector_width >= 16  # 32 registers
    return max(8 // m, 4 if plenty else 2) if m > 1 else 8


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    lanes, n, k = p["lanes"], p["n"], p["k"]
    at_once = 1
    while 2 * at_once <= min(lanes, _rows_at_once(device, p["m"])):
        at_once *= 2
    blocks = _BLOCKS
    if is_static(n):
        blocks = max(1, int(n) // (lanes * device.compute_units * _ITEMS_PER_UNIT))
    chain = MAX_K_CHAIN * lanes
    return {
        "profile": profile,
        "out_prefix": [f"bi{d}" for d in range(len(p["batch"]))],
        "LANES": lanes,
        "R": at_once,
        "BLOCKS": blocks,
        "chain": chain,
        "chained": not is_static(k) or int(k) > chain,
        "rest": not is_static(k) or int(k) % lanes != 0,
        "halves": [lanes >> s for s in range(1, lanes.bit_length())],
        **store_edges(n, lanes, lanes),
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> Launch:
    items = size_ceil_div(p["n"], tile["BLOCKS"] * tile["LANES"])
    return Launch((items, prod(p["batch"])), (1, 1))


def _flops(p: Params) -> Size:
    return prod((2, *p["batch"], p["m"], p["n"], p["k"]))


def _bytes(p: Params) -> Size:
    item = 8 if p["acc"] == "double" else 4
    batch, matrices = prod(p["batch"]), 1
    for size, stride in zip(p["batch"], p["w_strides"], strict=False):
        matrices = prod((matrices, 1 if stride == 0 else size))
    few = prod((item, batch, p["m"], p["n"] + p["k"]))
    return few + prod((p["w_itemsize"], matrices, p["n"], p["k"]))


def _reference(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.matmul(a.astype(np.float64), w.astype(np.float64).swapaxes(-1, -2))


GEMV = TemplateSpec(
    name="gemv",
    file="gemv.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
