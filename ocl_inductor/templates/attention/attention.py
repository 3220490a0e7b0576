"""Scaled dot product attention in one kernel: out[b, m, :] = softmax(scale Q K' + mask)[m, :] V.

The online softmax of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax"
(2018), in blocks as in T. Dao et al., "FlashAttention" (2022): running results are scaled down when
a later block of keys holds a larger score.

In the vector profile a lane is a query. Scores of MR keys and NV vectors of queries are held in
registers; keys and values are read as scalars in place, so neither needs packing, and a row's
maximum and sum are plain vector operations.

Parameters (sizes and strides in elements, static or symbolic):

* ``m n``: queries and keys; ``width``, ``v_width``: static head sizes of Q and K, and of V;
* ``batch``, ``out_order``: the sizes of the batch, and how (\\*batch, m) lie in the result;
* ``q_strides k_strides v_strides mask_strides``: (\\*batch, row, column), and ``q_offset`` ...;
* ``mask``: ``""`` for none; an additive one is ``"row"`` (the same for all queries), ``"lanes"``
  (unit stride along queries) or ``"any"``; ``causal``: query m sees keys up to m;
* ``scale``: a number; ``empty_is_nan``: what a row that sees nothing gives, else it gives 0;
* ``logsumexp``: the result has one more column, the logarithm of the row's sum of exponentials
  (0 for a row that sees nothing, as eager);
* ``nv lanes``: the blocking of the vector profile; ``side r_rows r_columns``: of the simt profile,
  the side of a work-group and the scores of a work-item (attention_simt.cl.jinja);
* ``acc``: ``"float"`` or ``"double"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import (
    ceil_div,
    inner_loop,
    register_tile_rows,
    size_ceil_div,
)
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec

#: Keys to a block: their scores (with 64 queries 16 KiB) stay in the first level cache.
_BLOCK_KEYS = 64


def block_keys(mr: int) -> int:
    """A multiple of the register tile's rows."""
    return max(_BLOCK_KEYS // mr, 1) * mr


def choose_group(
    device: DeviceInfo, acc: str, rows: int, width: int, v_width: int
) -> dict[str, int] | None:
    """Parameters of the simt profile for ``rows`` queries; None: local memory is too small."""
    item = 8 if acc == "double" else 4
    for side in (16, 8, 4):
        for each in (2, 1):
            tile = side * each
            numbers = tile * (width + max(width, v_width) + tile + side + 4)
            fits = numbers * item <= device.local_mem_bytes
            if fits and side * side <= device.max_work_group_size and (rows > side or each == 1):
                return {"side": side, "r_rows": each, "r_columns": each}
    return None


def columns_of(p: Params) -> int:
    """Columns of the result: with ``logsumexp`` one more than V has."""
    return int(p["v_width"]) + bool(p["logsumexp"])


def _out_space(p: Params) -> tuple[Size, ...]:
    outer = (*p["batch"], p["m"])
    return (*(outer[d] for d in p["out_order"]), columns_of(p))


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    outer = [*(f"bi{d}" for d in range(len(p["batch"]))), "m"]
    double = p["acc"] == "double"
    common = {
        "profile": profile,
        "out_prefix": [outer[d] for d in p["out_order"]],
        "scale": repr(float(p["scale"])) + ("" if double else "f"),
    }
    if profile == "simt":
        side = p["side"]
        return common | {
            "LX": side,
            "RM": p["r_rows"],
            "RN": p["r_columns"],
            "TM": side * p["r_rows"],
            "TN": side * p["r_columns"],
            "RV": ceil_div(int(p["v_width"]), side),
        }
    lanes = p["lanes"]
    integer = "long" if double else "int"
    return common | {
        "W": lanes,
        "NV": p["nv"],
        "MR": register_tile_rows(device, p["nv"]),
        "QR": p["nv"] * lanes,
        "KB": block_keys(register_tile_rows(device, p["nv"])),
        "dense_q": bool(p["q_strides"][-1] == 1),
        # Scores are relative to the largest. See primitives.py for why it is our own.
        "exp": "exp" if double or lanes == 1 else f"ocl_exp_negative_or_zero_float{lanes}",
        "int_t": f"{integer}{lanes if lanes > 1 else ''}",
        "lane_numbers": f"({integer}{lanes})({', '.join(map(str, range(lanes)))})",
        **inner_loop(device),
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    if tile["profile"] == "simt":
        side = tile["LX"]
        groups = size_ceil_div(p["m"], tile["TM"])
        return LaunchGrid((groups * side, prod((*p["batch"], side)), 1), (side, side, 1))
    return LaunchGrid((size_ceil_div(p["m"], tile["QR"]), prod(p["batch"]), 1), (1, 1, 1))


def attention_flops(p: Params) -> Size:
    """Of the two products, whatever a causal mask leaves out."""
    return prod((2, *p["batch"], p["m"], p["n"], p["width"] + p["v_width"]))


def _bytes(p: Params) -> Size:
    item = 8 if p["acc"] == "double" else 4
    queries = prod((p["m"], p["width"] + columns_of(p)))
    keys = prod((p["n"], p["width"] + p["v_width"]))
    return prod((*p["batch"], item)) * (queries + keys)


def attention_reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    """(\\*batch, m, v_width) in float64, without a mask."""
    scores = np.matmul(q.astype(np.float64), np.swapaxes(k, -1, -2).astype(np.float64)) * scale
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.matmul(e / e.sum(axis=-1, keepdims=True), v.astype(np.float64))


ATTENTION = TemplateSpec(
    name="attention",
    file="attention/attention.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=attention_flops,
    bytes=_bytes,
    reference=attention_reference,
)
