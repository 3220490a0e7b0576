"""Convolution of bfloat16 or float16 in one to three dimensions by a GPU's matrix instructions.

How they multiply: mma.cl.jinja; what their sums are: mma_gemm.py.

Parameters (strides in elements; static, but for ``n``):

* ``n in_sizes out_sizes kernel stride padding dilation``: as of conv.py; ``channels``, of the input
  and divisible by 8, and ``oc`` of the result;
* ``x_offset x_strides``: of the input, (n, \\*spatial), with adjacent channels; all divisible by 8.
  The weight lies as (oc, \\*kernel, channels);
* ``rows columns warps_m warps_n slabs``: the tile (mma_tiles.py);
* ``half``: ``"bf16"`` or ``"f16"``; ``acc``: ``"float"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.conv.conv import CONV
from ocl_inductor.templates.gemm.gemm import whole_tiles
from ocl_inductor.templates.gemm.mma_gemm import NEIGHBOURS
from ocl_inductor.templates.mma_tiles import DEPTH, mma_launch, mma_names, mma_tile_of
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec


def _depth(p: Params) -> int:
    return math.prod(p["kernel"]) * int(p["channels"])


def _out_space(p: Params) -> tuple[Size, ...]:
    return (p["n"], *p["out_sizes"], p["oc"])


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    tile, depth, pixels = mma_tile_of(p), _depth(p), math.prod(p["out_sizes"])
    return {
        "out_prefix": ["pn", *(f"p{d}" for d in range(len(p["kernel"])))],
        "mma": device.mma,
        "half_type": p["half"],
        **mma_names(tile),
        "VN": NEIGHBOURS if p["oc"] % NEIGHBOURS == 0 else 1,
        "a_deep": True,
        "b_deep": True,
        "depth": depth,
        "pixels": pixels,
        "whole_rows": whole_tiles(prod((p["n"], pixels)), tile.rows),
        "whole_columns": p["oc"] % tile.columns == 0,
        "whole_depth": depth % DEPTH == 0,
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    return mma_launch(tile, prod((p["n"], tile["pixels"])), p["oc"])


def _flops(p: Params) -> Size:
    return prod((2, *_out_space(p), _depth(p)))


def _bytes(p: Params) -> Size:
    inputs = prod((p["n"], *p["in_sizes"], p["channels"]))
    return 2 * (inputs + p["oc"] * _depth(p)) + 4 * prod(_out_space(p))


MMA_CONV = TemplateSpec(
    name="mma_conv",
    file="conv/mma_conv.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=CONV.reference,
)
