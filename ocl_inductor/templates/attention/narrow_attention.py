"""Scaled dot product attention of bfloat16 by a CPU's matrix unit (AMX), summed in float32.

attention.py says what is computed, narrow_gemm.py how the unit multiplies. As in
matrix_attention.py a lane is a query: the unit computes scores K Q' with keys as rows, and results
V' P with the columns of V as rows, so that weights P come out as the next product wants them. They
are rounded to bfloat16 for it, as eager does, and summed before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.attention.attention import (
    ManyQueriesParams,
    attention_bytes,
    attention_flops,
    attention_reference,
    out_space,
    vector_tile,
)
from ocl_inductor.templates.attention.matrix_attention import BLOCK_KEYS, QUERIES
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.gemm.narrow_gemm import AHEAD, BLOCK, INSTRUCTIONS
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec

#: Terms of a step, which is a row of a tile.
DEPTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowAttentionParams(ManyQueriesParams):
    """``n`` is static; Q, K and V are bfloat16 with adjacent columns, a mask is float32.

    ``acc`` is "float"; ``mb``: blocks of 32 queries to a work-item.
    """

    n: int
    mb: int


def bytes_of_head(n: int, width: int, v_width: int) -> int:
    """Of a head's keys and values in the order of tiles."""
    keys = ceil_div(n, DEPTH) * DEPTH
    return 2 * keys * (ceil_div(width, DEPTH) + ceil_div(v_width, DEPTH)) * DEPTH


def _tile(device: DeviceInfo, profile: Profile, p: NarrowAttentionParams) -> dict[str, object]:
    steps = ceil_div(p.n, DEPTH)
    return vector_tile(device, p, QUERIES) | {
        "KB": min(BLOCK_KEYS, steps * DEPTH),
        "KS": steps,
        "DS": ceil_div(p.width, DEPTH),
        "VT": 2 * ceil_div(p.v_width, DEPTH),
        "MB": p.mb,
        "instruction": INSTRUCTIONS["bfloat16"],
        "tail": p.width % DEPTH,
        "ahead": AHEAD if device.prefetch else 0,
        "whole_keys": p.n % DEPTH == 0,
        "whole_columns": p.v_width % DEPTH == 0,
    }


def _launch(p: NarrowAttentionParams, tile: Mapping[str, object]) -> LaunchGrid:
    return LaunchGrid((size_ceil_div(p.m, BLOCK * p.mb), prod(p.batch)), (1, 1))


def _bytes(p: NarrowAttentionParams) -> Size:
    return attention_bytes(p) // 2


NARROW_ATTENTION: TemplateSpec[NarrowAttentionParams] = TemplateSpec(
    name="narrow_attention",
    params=NarrowAttentionParams,
    file="attention/narrow_attention.cl.jinja",
    out_space=out_space,
    tile=_tile,
    launch=_launch,
    flops=attention_flops,
    bytes=_bytes,
    reference=attention_reference,
)
