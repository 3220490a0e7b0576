"""Products of very few rows of bfloat16 with a matrix that is read in place, once: decoding.

Sums are float32, by vdpbf16ps, whose arithmetic bf16_gemm.py describes.

Parameters (strides in elements, static or symbolic): ``batch m n k a_offset a_strides w_offset
w_strides lanes acc`` as of skinny_gemm.py; ``m`` (at most ``VERY_FEW``), ``k`` and ``n`` are
static, ``k`` is at least ``VECTOR``, ``n`` at least ``row_count(m)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import prod
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.gemm.gemm import store_edges
from ocl_inductor.templates.gemm.skinny_gemm import FEW_ROWS, columns_of_item
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec

#: Elements that a register of pairs holds.
VECTOR = 32


def row_count(rows: int) -> int:
    """Rows of W that are read side by side for so many of A: 24 or 16 sums, of 32 registers."""
    return 8 if rows <= 3 else 4


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    return {
        "out_prefix": [*(f"bi{d}" for d in range(len(p["batch"]))), "m"],
        "LANES": p["lanes"],
        "RC": row_count(p["m"]),
        "NB": columns_of_item(device, p),
        "names_registers": device.names_registers,
        **store_edges(p["n"], p["lanes"], p["lanes"]),
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    return LaunchGrid((size_ceil_div(p["n"], tile["NB"]), prod(p["batch"]), 1), (1, 1, 1))


BF16_ROWS = TemplateSpec(
    name="bf16_skinny_gemm",
    file="gemm/bf16_skinny_gemm.cl.jinja",
    out_space=FEW_ROWS.out_space,
    tile=_tile,
    launch=_launch,
    flops=FEW_ROWS.flops,
    bytes=FEW_ROWS.bytes,
    reference=FEW_ROWS.reference,
)
