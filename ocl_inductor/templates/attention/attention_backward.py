"""Gradients of scaled dot product attention without a matrix of scores in memory.

As in T. Dao, "FlashAttention-2" (2023), section 3.1: the weights are computed again from the scores
and the logarithm of each row's sum of exponentials, with ``D = sum(dO * O)`` over each row,

    P = exp(scale Q K' + mask - logsumexp),   dS = P * (dO V' - D),
    dQ = scale dS K,   dK = scale dS' Q,   dV = P' dO.

One kernel gives dQ, another dK and dV. They mirror each other: in the first a lane is a query and
the keys go by, read as single numbers where they lie; in the second a lane is a key and the queries
go by. So no sum crosses lanes, and no two work-items write to one place. The vector profile only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.attention.attention import AttentionShape, block_keys
from ocl_inductor.templates.blocking import (
    RowVectors,
    inner_loop,
    register_tile_rows,
    size_ceil_div,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionBackwardParams(AttentionShape):
    """V has the head size of Q and K.

    ``of``: ``"queries"`` for dQ, or ``"keys"`` for dK and dV, one after the other in memory: the
    result has one more dimension, the first. ``summed``: dimensions of the batch over which dK and
    dV are summed (the queries of a group share a key; none of them for dQ); ``out_order``: how the
    rest of the batch and the row lie in the result, outermost first. ``g_strides`` (\\*batch, row,
    column), ``g_offset``: dO; ``s``, ``d``, with strides (\\*batch, row): the logarithms and D.
    ``masked``: whether there is an additive mask, whose stride is 0 where it does not depend on a
    coordinate. ``tile``: rows to a work-item.
    """

    of: Literal["queries", "keys"]
    summed: tuple[int, ...]
    out_order: tuple[int, ...]
    g_strides: tuple[Size, ...]
    g_offset: Size
    s_strides: tuple[Size, ...]
    s_offset: Size
    d_strides: tuple[Size, ...]
    d_offset: Size
    masked: bool
    tile: RowVectors


def _kept(p: AttentionBackwardParams) -> list[int]:
    return [d for d in range(len(p.batch)) if d not in p.summed]


def _lane_count(p: AttentionBackwardParams) -> Size:
    return p.n if p.of == "keys" else p.m


def _out_space(p: AttentionBackwardParams) -> tuple[Size, ...]:
    outer = (*(p.batch[d] for d in _kept(p)), _lane_count(p))
    lead = (2,) if p.of == "keys" else ()
    return (*lead, *(outer[d] for d in p.out_order), p.width)


def _tile(device: DeviceInfo, profile: Profile, p: AttentionBackwardParams) -> dict[str, object]:
    kept, summed = _kept(p), list(p.summed)
    lanes, nb, double = p.tile.lanes, len(p.batch), p.acc == "double"
    outer = [*(f"bi{d}" for d in range(len(kept))), "row"]
    integer = "long" if double else "int"
    along = p.mask_strides[nb + (p.of == "keys")] if p.masked else 0
    # X has a lane for each row, Y goes by; 1 is what scores are made of, 2 what dO V' is.
    x, y = ("qg", "kv") if p.of == "queries" else ("kv", "qg")
    return {
        "W": lanes,
        "NV": p.tile.nv,
        "MR": register_tile_rows(device, p.tile.nv),
        "QR": p.tile.rows,
        "KB": block_keys(register_tile_rows(device, p.tile.nv)),
        "x": x,
        "y": y,
        "operands": {name: "qkvgsd".index(name) for name in "qkvgsd"},
        "kept": [p.batch[d] for d in kept],
        "summed": [p.batch[d] for d in summed],
        "at": [f"bi{kept.index(d)}" if d in kept else f"si{summed.index(d)}" for d in range(nb)],
        "out_prefix": [outer[d] for d in p.out_order],
        "mask_kind": "row" if along == 0 else ("lanes" if along == 1 else "any"),
        "scale": repr(float(p.scale)) + ("" if double else "f"),
        "int_t": f"{integer}{lanes if lanes > 1 else ''}",
        "lane_numbers": ", ".join(map(str, range(lanes))),
        **inner_loop(device),
    }


def _launch(p: AttentionBackwardParams, tile: Mapping[str, Any]) -> LaunchGrid:
    return LaunchGrid((size_ceil_div(_lane_count(p), tile["QR"]), prod(tile["kept"]), 1), (1, 1, 1))


def _flops(p: AttentionBackwardParams) -> Size:
    products = 4 if p.of == "keys" else 3
    return prod((2, products, *p.batch, p.m, p.n, p.width))


def _bytes(p: AttentionBackwardParams) -> Size:
    queries = prod((*p.batch, p.m, 2 * p.width + 2))
    keys = prod([2, *(p.batch[d] for d in _kept(p)), p.n, p.width])
    return p.itemsize * (queries + keys + prod(_out_space(p)))


def _reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray) -> np.ndarray:
    """dQ for a scale of 1, in float64."""
    q, k, v, g = (x.astype(np.float64) for x in (q, k, v, g))
    scores = np.matmul(q, np.swapaxes(k, -1, -2))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    dp = np.matmul(g, np.swapaxes(v, -1, -2))
    ds = weights * (dp - (dp * weights).sum(axis=-1, keepdims=True))
    return np.matmul(ds, k)


ATTENTION_BACKWARD: TemplateSpec[AttentionBackwardParams] = TemplateSpec(
    name="attention_backward",
    params=AttentionBackwardParams,
    file="attention/attention_backward.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
