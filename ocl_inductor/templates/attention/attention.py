"""Scaled dot product attention in one kernel: out[b, m, :] = softmax(scale Q K' + mask)[m, :] V.

The online softmax of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax"
(2018), in blocks as in T. Dao et al., "FlashAttention" (2022): running results are scaled down when
a later block of keys holds a larger score.

In the vector profile a lane is a query. Scores of MR keys and NV vectors of queries are held in
registers; keys and values are read as scalars in place, so neither needs packing, and a row's
maximum and sum are plain vector operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, Literal

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.attention.query_groups import QueryGroup, candidate_groups
from ocl_inductor.templates.blocking import (
    RowVectors,
    candidate_query_vectors,
    inner_loop,
    register_tile_rows,
    size_ceil_div,
)
from ocl_inductor.templates.gemm.gemm import simt_stores
from ocl_inductor.templates.simt_tiles import (
    extent_of,
    index_type,
    vector_width,
    work_item_blocks,
)
from ocl_inductor.templates.spec import Hint, LaunchGrid, Profile, TemplateSpec, tunable
from ocl_inductor.templates.trial import Trial, strided, tolerance_of_sum

#: Neighbouring elements of a row that work-items side by side read: 64 bytes.
_RUN = 16
#: Keys to a block: their scores (with 64 queries 16 KiB) stay in the first level cache.
_BLOCK_KEYS = 64
#: Work-groups that are tried: the most promising of a dozen or more.
_GROUPS_TO_TRY = 6
#: Operations of a reference in float64 that a trial waits for, and scores it has in memory.
_MOST_OPERATIONS, _MOST_SCORES = 1 << 35, 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape(TemplateParams):
    """What all of attention's templates are asked for. Sizes and strides in elements.

    ``m n``: queries and keys, static or symbolic; ``width``: the static head size of Q and K;
    ``batch``: the sizes of the batch. ``q_strides k_strides v_strides``: (\\*batch, row, column),
    and ``q_offset`` ...: where they lie; ``mask_strides``, ``mask_offset``: of an additive mask, if
    there is one. ``causal``: query m sees keys up to m; ``scale``: of the scores. ``acc``:
    ``"float"`` or ``"double"``, the type of the sums.
    """

    m: Size
    n: Size
    width: int
    batch: tuple[Size, ...]
    q_strides: tuple[Size, ...]
    q_offset: Size
    k_strides: tuple[Size, ...]
    k_offset: Size
    v_strides: tuple[Size, ...]
    v_offset: Size
    mask_strides: tuple[Size, ...] = ()
    mask_offset: Size = 0
    causal: bool
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardParams(AttentionShape):
    """``v_width``: the static head size of V; ``out_order``: how (\\*batch, m) lie in the result.

    ``empty_is_nan``: what a row that sees nothing gives, else it gives 0. ``logsumexp``: the result
    has one more column, the logarithm of the row's sum of exponentials (0 for a row that sees
    nothing, as eager).
    """

    v_width: int
    out_order: tuple[int, ...]
    empty_is_nan: bool
    logsumexp: bool


#: "" for none; "row": the same for all queries; "lanes": unit stride along queries.
MaskKind = Literal["", "row", "lanes", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyQueriesParams(ForwardParams):
    """``mask``: how an additive mask depends on the coordinates."""

    mask: MaskKind


def query_tiles(
    device: DeviceInfo, p: AttentionParams, hint: Hint
) -> Sequence[RowVectors] | Sequence[QueryGroup]:
    """What is worth trying, the default first."""
    rows, heads = hint(p.m), hint(prod(p.batch))
    if device.profile == "simt":
        found = candidate_groups(device, p.acc, rows, heads, p.width, p.v_width)
        return found[:_GROUPS_TO_TRY]
    return candidate_query_vectors(device, p.acc, rows, heads)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionParams(ManyQueriesParams):
    """``tile``: of the vector profile, or a group of the simt profile."""

    tile: RowVectors | QueryGroup = field(metadata=tunable(query_tiles))


def block_keys(mr: int) -> int:
    """A multiple of the register tile's rows."""
    return max(_BLOCK_KEYS // mr, 1) * mr


def columns_of(p: ForwardParams) -> int:
    """Columns of the result: with ``logsumexp`` one more than V has."""
    return p.v_width + p.logsumexp


def out_space(p: ForwardParams) -> tuple[Size, ...]:
    outer = (*p.batch, p.m)
    return (*(outer[d] for d in p.out_order), columns_of(p))


def _tile(device: DeviceInfo, profile: Profile, p: AttentionParams) -> dict[str, object]:
    if isinstance(p.tile, RowVectors):
        return vector_tile(device, p, p.tile)
    return _simt_tile(device, p, p.tile)


def _simt_tile(device: DeviceInfo, p: AttentionParams, group: QueryGroup) -> dict[str, object]:
    """What attention_simt.cl.jinja takes."""
    operands = (
        (p.q_offset, p.m, p.width, p.q_strides),
        (p.k_offset, p.n, p.width, p.k_strides),
        (p.v_offset, p.n, p.v_width, p.v_strides),
    )
    q, k, v = (
        vector_width(device, p.acc, columns, step=strides[-1], others=(offset, *strides[:-1]))
        for offset, _, columns, strides in operands
    )
    extents = [extent_of(o, (*p.batch, r, c), strides) for o, r, c, strides in operands]
    neighbours = group.column_vector(p.v_width)
    return {
        **common_names("simt", p),
        "LX": group.x,
        "LY": group.y,
        "RM": group.r_rows,
        "SN": group.r_keys,
        "RN": group.columns(p.v_width),
        "TM": group.rows,
        "TN": group.keys,
        "VM": group.row_vector,
        "VS": group.key_vector,
        "VN": neighbours,
        "rows_pitch": group.rows_pitch,
        "keys_pitch": group.keys_pitch,
        "block_elements": group.block_elements(p.width, p.v_width),
        "run": gcd(p.width, _RUN),
        "q_vector": q,
        "k_vector": k,
        "v_vector": v,
        "index": index_type(extents),
        "integer": "long" if p.acc == "double" else "int",
        **simt_stores(columns_of(p), neighbours),
        **work_item_blocks(group.x, group.y),
    }


def common_names(profile: Profile, p: ForwardParams) -> dict[str, object]:
    """What all forms take."""
    outer = [*(f"bi{d}" for d in range(len(p.batch))), "m"]
    return {
        "profile": profile,
        "out_prefix": [outer[d] for d in p.out_order],
        "scale": repr(float(p.scale)) + ("" if p.acc == "double" else "f"),
    }


def vector_tile(device: DeviceInfo, p: ManyQueriesParams, tile: RowVectors) -> dict[str, object]:
    """What attention_rows.cl.jinja takes."""
    lanes, double = tile.lanes, p.acc == "double"
    integer = "long" if double else "int"
    return {
        **common_names("vector", p),
        "W": lanes,
        "NV": tile.nv,
        "MR": register_tile_rows(device, tile.nv),
        "QR": tile.rows,
        "KB": block_keys(register_tile_rows(device, tile.nv)),
        "dense_q": bool(p.q_strides[-1] == 1),
        # Scores are relative to the largest. See primitives.py for why it is our own.
        "exp": "exp" if double or lanes == 1 else f"ocl_exp_negative_or_zero_float{lanes}",
        "int_t": f"{integer}{lanes if lanes > 1 else ''}",
        "lane_numbers": f"({integer}{lanes})({', '.join(map(str, range(lanes)))})",
        **inner_loop(device),
    }


def _launch(p: AttentionParams, tile: Mapping[str, Any]) -> LaunchGrid:
    if tile["profile"] == "simt":
        x, y = tile["LX"], tile["LY"]
        groups = size_ceil_div(p.m, tile["TM"])
        return LaunchGrid((groups * x, prod((*p.batch, y)), 1), (x, y, 1))
    return LaunchGrid((size_ceil_div(p.m, tile["QR"]), prod(p.batch), 1), (1, 1, 1))


def attention_flops(p: ForwardParams) -> Size:
    """Of the two products, whatever a causal mask leaves out."""
    return prod((2, *p.batch, p.m, p.n, p.width + p.v_width))


def attention_bytes(p: ForwardParams) -> Size:
    queries = prod((p.m, p.width + columns_of(p)))
    keys = prod((p.n, p.width + p.v_width))
    return prod((*p.batch, p.itemsize)) * (queries + keys)


def attention_reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    """(\\*batch, m, v_width) in float64, without a mask."""
    scores = np.matmul(q.astype(np.float64), np.swapaxes(k, -1, -2).astype(np.float64)) * scale
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.matmul(e / e.sum(axis=-1, keepdims=True), v.astype(np.float64))


def attention_trial(
    p: AttentionParams, random: np.random.Generator
) -> Trial[AttentionParams] | None:
    """None where the reference would take longer than the choice is worth."""
    if attention_flops(p) > _MOST_OPERATIONS:
        return None
    batch, m, n = tuple(map(int, p.batch)), int(p.m), int(p.n)
    places = (
        (p.q_offset, (*batch, m, p.width), p.q_strides),
        (p.k_offset, (*batch, n, p.width), p.k_strides),
        (p.v_offset, (*batch, n, p.v_width), p.v_strides),
        (p.mask_offset, (*batch, m, n), p.mask_strides),
    )
    made = [strided(random, *place, p.acc) for place in places[: 4 if p.mask else 3]]
    q, k, v, *mask = (view for _, view in made)
    expected = np.empty((*batch, m, columns_of(p)))
    step = max(1, _MOST_SCORES // n)
    for b in np.ndindex(batch):
        for at in range(0, m, step):
            rows = slice(at, min(at + step, m))
            scores = q[b][rows].astype(np.float64) @ k[b].astype(np.float64).T * p.scale
            if mask:
                scores += mask[0][b][rows]
            if p.causal:
                scores[np.arange(n) > np.arange(rows.start, rows.stop)[:, None]] = -np.inf
            top = scores.max(axis=-1, keepdims=True)
            weights = np.exp(scores - top)
            total = weights.sum(axis=-1, keepdims=True)
            expected[b][rows, : p.v_width] = weights / total @ v[b].astype(np.float64)
            if p.logsumexp:
                expected[b][rows, -1:] = top + np.log(total)
    expected = expected.transpose((*p.out_order, len(batch) + 1))
    # Of the scores, whose errors the exponentials pass on.
    tolerance = tolerance_of_sum(p.acc, max(64, int(2 * p.width * max(1.0, abs(p.scale)))))
    return Trial(p, tuple(buffer for buffer, _ in made), expected, tolerance)


ATTENTION: TemplateSpec[AttentionParams] = TemplateSpec(
    name="attention",
    params=AttentionParams,
    file="attention/attention.cl.jinja",
    out_space=out_space,
    tile=_tile,
    launch=_launch,
    flops=attention_flops,
    bytes=attention_bytes,
    reference=attention_reference,
    trial=attention_trial,
)
