"""Scaled dot product attention in float32 by a CPU's matrix unit (AMX).

attention.py says what is computed; matrix_gemm.py how the unit multiplies.
A lane is a query here as well: the unit computes scores K Q' with keys as rows, and results V' P
with the columns of V as rows, so that weights P come out as the next product wants them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import prod
from ocl_inductor.templates.attention.attention import (
    ManyQueriesParams,
    attention_bytes,
    attention_flops,
    attention_reference,
    out_space,
    vector_tile,
)
from ocl_inductor.templates.blocking import RowVectors, ceil_div, size_ceil_div
from ocl_inductor.templates.gemm.matrix_gemm import (
    BLOCK,
    DEPTH,
    LEAST_EXPONENT,
    LEAST_SUM,
    STEP,
    unit_stride,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec

#: Keys to a block: their scores, and these as parts, take 80 KiB.
BLOCK_KEYS = 256
#: Queries of a block: two vectors of 16 lanes.
QUERIES = RowVectors(lanes=16, nv=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixAttentionParams(ManyQueriesParams):
    """``n`` is static, ``width`` and ``v_width`` are multiples of 32, ``acc`` is "float".

    ``mb``: blocks of 32 queries to a work-item.
    """

    n: int
    mb: int


def words_of_head(n: int, width: int, v_width: int) -> int:
    """32-bit words of a head's keys and values as parts."""
    return ceil_div(n, DEPTH) * DEPTH * (width + v_width) * 3 // 2


def _tile(device: DeviceInfo, profile: Profile, p: MatrixAttentionParams) -> dict[str, object]:
    keys = ceil_div(p.n, DEPTH)
    return vector_tile(device, p, QUERIES) | {
        "KB": min(BLOCK_KEYS, keys * DEPTH),
        "KS": keys,
        "DS": p.width // DEPTH,
        "VT": p.v_width // 16,
        "MB": p.mb,
        "step": STEP,
        "key_unit": unit_stride(p.k_strides),
        "value_unit": unit_stride(p.v_strides[::-1][:2]),
        "least_exponent": LEAST_EXPONENT,
        "least_sum": LEAST_SUM,
    }


def _launch(p: MatrixAttentionParams, tile: Mapping[str, object]) -> LaunchGrid:
    return LaunchGrid((size_ceil_div(p.m, BLOCK * p.mb), prod(p.batch)), (1, 1))


MATRIX_ATTENTION: TemplateSpec[MatrixAttentionParams] = TemplateSpec(
    name="matrix_attention",
    params=MatrixAttentionParams,
    file="attention/matrix_attention.cl.jinja",
    out_space=out_space,
    tile=_tile,
    launch=_launch,
    flops=attention_flops,
    bytes=attention_bytes,
    reference=attention_reference,
)
