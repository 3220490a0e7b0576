"""Batched matrix product of bfloat16 or float16, summed in float32, by a GPU's matrix instructions.

How they multiply: mma.cl.jinja. Sums are not IEEE 754's: an NVIDIA tensor core cuts off what is
below the largest term of a step, as it does for cuBLAS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import prod, same
from ocl_inductor.templates.gemm.gemm import (
    ProductParams,
    product_bytes,
    product_flops,
    product_reference,
    product_space,
    whole_tiles,
)
from ocl_inductor.templates.mma_tiles import DEPTH, MmaTile, mma_launch, mma_names
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec

#: Neighbours of a row that are stored at once.
NEIGHBOURS = 4
#: The types that are multiplied, as the instruction calls them.
Half = Literal["bf16", "f16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaGemmParams(ProductParams):
    """``n``, ``k`` and strides are static; ``acc`` is "float".

    A has unit stride in k or in m, B in k or in n; all else (offsets, other strides, the extent
    along the unit stride) is divisible by 8, which are 16 bytes; ``k_chunk`` by 32.
    """

    n: int
    k: int
    half: Half
    tile: MmaTile


def _tile(device: DeviceInfo, profile: Profile, p: MmaGemmParams) -> dict[str, object]:
    outer = [*(f"bo{d}" for d in range(len(p.out_batch))), "m"]
    tile, chunk, columns = p.tile, p.k_chunk, p.n
    return {
        "out_prefix": [outer[d] for d in p.out_order],
        "mma": device.mma,
        "half_type": p.half,
        **mma_names(tile),
        "VN": NEIGHBOURS if whole_tiles(columns, NEIGHBOURS) else 1,
        "a_deep": same(p.a_strides[-1], 1),
        "b_deep": same(p.b_strides[-2], 1),
        "k_chunk": chunk,
        "whole_rows": whole_tiles(p.m, tile.rows),
        "whole_columns": whole_tiles(columns, tile.columns),
        "whole_depth": p.k % DEPTH == 0,
    }


def _launch(p: MmaGemmParams, tile: Mapping[str, object]) -> LaunchGrid:
    return mma_launch(tile, p.m, p.n, prod(p.batch))


MMA_GEMM: TemplateSpec[MmaGemmParams] = TemplateSpec(
    name="mma_gemm",
    params=MmaGemmParams,
    file="gemm/mma_gemm.cl.jinja",
    out_space=product_space,
    tile=_tile,
    launch=_launch,
    flops=product_flops,
    bytes=lambda p: product_bytes(p, 2, 4),
    reference=product_reference,
)
