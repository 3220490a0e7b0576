"""Batched matrix product of bfloat16, summed in float32, by vdpbf16ps (AVX512-BF16).

The instruction multiplies pairs of neighbouring terms: see bf16_tile.cl.jinja. It is not IEEE
754's arithmetic: it takes subnormal numbers for 0, and gives 0 for a subnormal sum (Intel's manual,
volume 2); so do the libraries that eager uses on such a processor.

Parameters (strides in elements, static or symbolic; ``k`` static and even):

* ``m n k batch out_batch out_order a_offset a_strides b_offset b_strides``: as of gemm.py; A has
  unit stride in k, B in k or in n;
* ``mr nv lanes mb``: the blocking (blocking.py), with 16 ``lanes``; a symbolic ``m`` may be less
  than ``mr``, a static one is not;
* ``acc``: ``"float"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import prod, same
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.gemm.gemm import GEMM, product_bytes, store_edges, whole_tiles
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    outer = [*(f"bo{d}" for d in range(len(p["out_batch"]))), "m"]
    nr = p["nv"] * p["lanes"]
    return {
        "out_prefix": [outer[d] for d in p["out_order"]],
        "W": p["lanes"],
        "NV": p["nv"],
        "NR": nr,
        "MR": p["mr"],
        "MB": p["mb"],
        "PAIRS": p["k"] // 2,
        "unit": "k" if same(p["b_strides"][-2], 1) else "n",
        "whole_tiles": whole_tiles(p["m"], p["mr"]),
        "touching": device.prefetch,
        "names_registers": device.names_registers,
        **store_edges(p["n"], p["lanes"], nr),
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    chunks = size_ceil_div(p["m"], tile["MR"] * tile["MB"])
    return LaunchGrid((size_ceil_div(p["n"], tile["NR"]), chunks, prod(p["batch"])), (1, 1, 1))


BF16_GEMM = TemplateSpec(
    name="bf16_gemm",
    file="gemm/bf16_gemm.cl.jinja",
    out_space=GEMM.out_space,
    tile=_tile,
    launch=_launch,
    flops=GEMM.flops,
    bytes=lambda p: product_bytes(p, 2, 4),
    reference=GEMM.reference,
)
