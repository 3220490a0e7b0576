"""Batched matrix product of bfloat16 or float16, summed in float32, by a GPU's matrix instructions.

How they multiply: mma.cl.jinja. Sums are not IEEE 754's: an NVIDIA tensor core cuts off what is
below the largest term of a step, as it does for cuBLAS.

Parameters (strides in elements, static; ``k n`` static):

* ``m n k batch out_batch out_order a_offset a_strides b_offset b_strides k_chunk``: as of gemm.py.
  A has unit stride in k or in m, B in k or in n; all else (offsets, other strides, the extent along
  the unit stride) is divisible by 8, which are 16 bytes; ``k_chunk`` by 32;
* ``rows columns warps_m warps_n slabs``: the tile (mma_tiles.py);
* ``half``: ``"bf16"`` or ``"f16"``; ``acc``: ``"float"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import is_static, prod, same
from ocl_inductor.templates.gemm.gemm import GEMM, product_bytes, whole_tiles
from ocl_inductor.templates.mma_tiles import DEPTH, mma_launch, mma_names, mma_tile_of
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec

#: Neighbours of a row that are stored at once.
NEIGHBOURS = 4


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    outer = [*(f"bo{d}" for d in range(len(p["out_batch"]))), "m"]
    tile, chunk, columns = mma_tile_of(p), p.get("k_chunk", 0), p["n"]
    return {
        "out_prefix": [outer[d] for d in p["out_order"]],
        "mma": device.mma,
        "half_type": p["half"],
        **mma_names(tile),
        "VN": NEIGHBOURS if whole_tiles(columns, NEIGHBOURS) else 1,
        "a_deep": same(p["a_strides"][-1], 1),
        "b_deep": same(p["b_strides"][-2], 1),
        "k_chunk": chunk,
        "whole_rows": whole_tiles(p["m"], tile.rows),
        "whole_columns": whole_tiles(columns, tile.columns),
        "whole_depth": is_static(p["k"]) and p["k"] % DEPTH == 0,
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    return mma_launch(tile, p["m"], p["n"], prod(p["batch"]))


MMA_GEMM = TemplateSpec(
    name="mma_gemm",
    file="gemm/mma_gemm.cl.jinja",
    out_space=GEMM.out_space,
    tile=_tile,
    launch=_launch,
    flops=GEMM.flops,
    bytes=lambda p: product_bytes(p, 2, 4),
    reference=GEMM.reference,
)
