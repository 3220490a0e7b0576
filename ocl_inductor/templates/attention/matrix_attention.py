"""Scaled dot product attention in float32 by a CPU's matrix unit (AMX).

attention.py says what is computed and has most parameters; matrix_gemm.py how the unit multiplies.
A lane is a query here as well: the unit computes scores K Q' with keys as rows, and results V' P
with the columns of V as rows, so that weights P come out as the next product wants them.

Parameters: those of attention.py with ``n`` static, ``width`` and ``v_width`` multiples of 32, and
``mb``, blocks of 32 queries to a work-item, instead of ``nv lanes``; ``acc`` is ``"float"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import prod
from ocl_inductor.templates.attention.attention import ATTENTION, attention_flops
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.gemm.matrix_gemm import (
    BLOCK,
    DEPTH,
    LEAST_EXPONENT,
    LEAST_SUM,
    STEP,
    unit_stride,
)
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec

#: Keys to a block: their scores, and these as parts, take 80 KiB.
BLOCK_KEYS = 256


def words_of_head(n: int, width: int, v_width: int) -> int:
    """32-bit words of a head's keys and values as parts."""
    return ceil_div(n, DEPTH) * DEPTH * (width + v_width) * 3 // 2


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    keys = ceil_div(p["n"], DEPTH)
    shared = ATTENTION.tile(device, profile, {**p, "nv": 2, "lanes": 16})
    return shared | {
        "KB": min(BLOCK_KEYS, keys * DEPTH),
        "KS": keys,
        "DS": p["width"] // DEPTH,
        "VT": p["v_width"] // 16,
        "MB": p["mb"],
        "step": STEP,
        "key_unit": unit_stride(p["k_strides"]),
        "value_unit": unit_stride(p["v_strides"][::-1][:2]),
        "least_exponent": LEAST_EXPONENT,
        "least_sum": LEAST_SUM,
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    return LaunchGrid((size_ceil_div(p["m"], BLOCK * p["mb"]), prod(p["batch"])), (1, 1))


MATRIX_ATTENTION = TemplateSpec(
    name="matrix_attention",
    file="attention/matrix_attention.cl.jinja",
    out_space=ATTENTION.out_space,
    tile=_tile,
    launch=_launch,
    flops=attention_flops,
    bytes=ATTENTION.bytes,
    reference=ATTENTION.reference,
)
