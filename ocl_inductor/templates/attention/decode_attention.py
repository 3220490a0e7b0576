"""Scaled dot product attention of a few queries over many keys, as in decoding a token.

out[b, r, :] = softmax(scale Q[b, r] K[b]' + mask[b, r]) V[b]. What takes the time is reading K and
V once, so all queries that share them (those of one head, and the heads of a group) go together.
The keys may be cut into pieces for different work-items, whose partial results a second kernel puts
together: "flash-decoding" (T. Dao, D. Haziza, F. Massa and G. Sizov, 2023). Vector profile only.

Lanes are elements of a head: a score is a sum over lanes. Scores of as many keys as there are lanes
are summed up together, by transposing. K and V have unit stride along a head, and may have a half
type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.attention.attention import (
    ForwardParams,
    attention_flops,
    attention_reference,
    columns_of,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec

#: More queries that share keys and values fill the lanes of ``attention``.
MAX_ROWS = 16
#: Keys to a block: V's rows stay in the first level cache while the rows go over them.
BLOCK_KEYS = 64
#: Rows whose sums are in registers at a time.
_ROWS_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeParams(ForwardParams):
    """``m`` is static; ``width`` and ``v_width`` are at least ``lanes``; ``k_strides`` and
    ``v_strides`` are (\\*batch, row).

    ``shared``: dimensions of the batch, with static sizes, in which neither K nor V differs; these
    and ``m`` are the rows, at most :data:`MAX_ROWS`. ``kv_bytes``: bytes of an element of K and V.
    ``masked``: whether there is an additive mask. ``splits``: pieces of the keys. With more than
    one the result is (\\*batch without ``shared``, splits, rows, v_width + 2): sums of values and,
    in the last two columns, the largest score and the sum of exponentials relative to it.
    ``lanes``: elements of a head in a register.
    """

    shared: tuple[int, ...]
    kv_bytes: int
    masked: bool
    splits: int
    lanes: int


def _kept(p: DecodeParams) -> list[int]:
    """Dimensions of the batch in which keys differ: one work-item each, or several."""
    return [d for d in range(len(p.batch)) if d not in p.shared]


def _coordinates(p: DecodeParams) -> dict[int, str]:
    """C text of what row ``r`` is in each shared dimension, and in -1 of the query's number."""
    found, stride = {}, 1
    for d in (-1, *reversed(p.shared)):
        size = int(p.m if d == -1 else p.batch[d])
        found[d] = "0" if size == 1 else f"(r / {stride} % {size})"
        stride *= size
    return found


def row_count(p: DecodeParams) -> int:
    """Queries that share keys and values."""
    return int(prod([p.m, *(p.batch[d] for d in p.shared)]))


def _out_space(p: DecodeParams) -> tuple[Size, ...]:
    if p.splits > 1:
        kept = (p.batch[d] for d in _kept(p))
        return (*kept, p.splits, row_count(p), p.v_width + 2)
    outer = (*p.batch, p.m)
    return (*(outer[d] for d in p.out_order), columns_of(p))


def _registers(device: DeviceInfo) -> int:
    """Vectors of sums: what leaves room for the operands."""
    return 16 if device.vector_width >= 16 else 8


def _tile(device: DeviceInfo, profile: Profile, p: DecodeParams) -> dict[str, object]:
    lanes, nb = p.lanes, len(p.batch)
    kept = _kept(p)
    rows = row_count(p)
    row = _coordinates(p)
    at = [row[d] if d in row else f"bi{kept.index(d)}" for d in range(nb)] + [row[-1]]
    prefix = [at[d] for d in p.out_order]
    if p.splits > 1:
        prefix = [*(f"bi{d}" for d in range(len(kept))), "split", "r"]
    at_once = min(rows, _ROWS_AT_ONCE)
    registers = _registers(device)
    keys_at_once = 1
    while 2 * keys_at_once <= min(lanes, registers // at_once):
        keys_at_once *= 2
    double = p.acc == "double"
    return {
        "W": lanes,
        "R": rows,
        "at": at,
        "query": row[-1],
        "out_prefix": prefix,
        "chunks": [range(i, min(i + at_once, rows)) for i in range(0, rows, at_once)],
        "kept": [p.batch[d] for d in kept],
        "kept_k_strides": [p.k_strides[d] for d in kept],
        "kept_v_strides": [p.v_strides[d] for d in kept],
        "U": keys_at_once,
        "KB": BLOCK_KEYS,
        "QV": p.width // lanes,
        "QT": p.width % lanes,
        "VV": p.v_width // lanes,
        "VT": p.v_width % lanes,
        "TV": max(1, registers // at_once),
        "scale": repr(float(p.scale)) + ("" if double else "f"),
        "int_t": f"{'long' if double else 'int'}{lanes}",
        "lane_numbers": ", ".join(map(str, range(lanes))),
        "halves": [lanes >> s for s in range(1, lanes.bit_length())],
    }  # fmt: skip


def _launch(p: DecodeParams, tile: Mapping[str, Any]) -> LaunchGrid:
    return LaunchGrid((p.splits, prod(tile["kept"])), (1, 1))


def _bytes(p: DecodeParams) -> Size:
    few = prod((p.itemsize, *p.batch, p.m, p.width + columns_of(p)))
    heads = prod([p.batch[d] for d in _kept(p)])
    return few + prod((p.kv_bytes, heads, p.n, p.width + p.v_width))


FEW_QUERIES: TemplateSpec[DecodeParams] = TemplateSpec(
    name="decode_attention",
    params=DecodeParams,
    file="attention/decode_attention.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=attention_flops,
    bytes=_bytes,
    reference=attention_reference,
)
