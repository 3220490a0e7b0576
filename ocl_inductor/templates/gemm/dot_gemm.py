"""Batched matrix product of bfloat16 (AVX512-BF16) or of bytes (AVX512-VNNI) in vectors.

The instructions multiply words of neighbouring terms: see dot_tile.cl.jinja. Products of bytes are
summed in int32, exactly; those of bfloat16 in float32, by what is not IEEE 754's arithmetic: it
takes subnormal numbers for 0, and gives 0 for a subnormal sum (Intel's manual, volume 2); so do the
libraries that eager uses on such a processor.
"""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import prod, same
from ocl_inductor.templates.blocking import Blocking, size_ceil_div
from ocl_inductor.templates.gemm.dot_words import DOT_WORDS
from ocl_inductor.templates.gemm.gemm import (
    ProductParams,
    product_bytes,
    product_flops,
    product_reference,
    product_space,
    store_edges,
    whole_tiles,
)
from ocl_inductor.templates.gemm.narrow_gemm import Operands
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class DotGemmParams(ProductParams):
    """``k`` is static, and of whole words; A has unit stride in k, B in k or in n.

    ``operands``: the type of A, and of B but for the sign of bytes; ``acc`` is that of its words.

    ``tile``: with 16 lanes; a symbolic ``m`` may be less than ``mr``, a static one is not.
    """

    k: int
    operands: Operands
    tile: Blocking


def _tile(device: DeviceInfo, profile: Profile, p: DotGemmParams) -> dict[str, object]:
    outer = [*(f"bo{d}" for d in range(len(p.out_batch))), "m"]
    tile, words = p.tile, DOT_WORDS[p.operands]
    return {
        "words": words,
        "out_prefix": [outer[d] for d in p.out_order],
        "W": tile.lanes,
        "NV": tile.nv,
        "NR": tile.nr,
        "MR": tile.mr,
        "MB": tile.mb,
        "WORDS": p.k // words.terms,
        "unit": "k" if same(p.b_strides[-2], 1) else "n",
        "whole_tiles": whole_tiles(p.m, tile.mr),
        "touching": device.prefetch,
        "names_registers": device.names_registers,
        **store_edges(p.n, tile.lanes, tile.nr),
    }


def _launch(p: DotGemmParams, tile: Tile) -> LaunchGrid:
    chunks = size_ceil_div(p.m, tile["MR"] * tile["MB"])
    return LaunchGrid((size_ceil_div(p.n, tile["NR"]), chunks, prod(p.batch)), (1, 1, 1))


DOT_GEMM: TemplateSpec[DotGemmParams] = TemplateSpec(
    name="dot_gemm",
    params=DotGemmParams,
    file="gemm/dot_gemm.cl.jinja",
    out_space=product_space,
    tile=_tile,
    launch=_launch,
    flops=product_flops,
    bytes=lambda p: product_bytes(p, DOT_WORDS[p.operands].itemsize, 4),
    reference=product_reference,
)
