"""Batched matrix product of bfloat16, summed in float32, by vdpbf16ps (AVX512-BF16).

The instruction multiplies pairs of neighbouring terms: see bf16_tile.cl.jinja. It is not IEEE
754's arithmetic: it takes subnormal numbers for 0, and gives 0 for a subnormal sum (Intel's manual,
volume 2); so do the libraries that eager uses on such a processor.
"""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import prod, same
from ocl_inductor.templates.blocking import Blocking, size_ceil_div
from ocl_inductor.templates.gemm.gemm import (
    ProductParams,
    product_bytes,
    product_flops,
    product_reference,
    product_space,
    store_edges,
    whole_tiles,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class Bf16GemmParams(ProductParams):
    """``k`` is static and even; A has unit stride in k, B in k or in n; ``acc`` is "float".

    ``tile``: with 16 lanes; a symbolic ``m`` may be less than ``mr``, a static one is not.
    """

    k: int
    tile: Blocking


def _tile(device: DeviceInfo, profile: Profile, p: Bf16GemmParams) -> dict[str, object]:
    outer = [*(f"bo{d}" for d in range(len(p.out_batch))), "m"]
    tile = p.tile
    return {
        "out_prefix": [outer[d] for d in p.out_order],
        "W": tile.lanes,
        "NV": tile.nv,
        "NR": tile.nr,
        "MR": tile.mr,
        "MB": tile.mb,
        "PAIRS": p.k // 2,
        "unit": "k" if same(p.b_strides[-2], 1) else "n",
        "whole_tiles": whole_tiles(p.m, tile.mr),
        "touching": device.prefetch,
        "names_registers": device.names_registers,
        **store_edges(p.n, tile.lanes, tile.nr),
    }


def _launch(p: Bf16GemmParams, tile: Tile) -> LaunchGrid:
    chunks = size_ceil_div(p.m, tile["MR"] * tile["MB"])
    return LaunchGrid((size_ceil_div(p.n, tile["NR"]), chunks, prod(p.batch)), (1, 1, 1))


BF16_GEMM: TemplateSpec[Bf16GemmParams] = TemplateSpec(
    name="bf16_gemm",
    params=Bf16GemmParams,
    file="gemm/bf16_gemm.cl.jinja",
    out_space=product_space,
    tile=_tile,
    launch=_launch,
    flops=product_flops,
    bytes=lambda p: product_bytes(p, 2, 4),
    reference=product_reference,
)
