"""The weight's gradient of a convolution of bfloat16 or float16 by a GPU's matrix instructions.

How they multiply: mma.cl.jinja; what their sums are: mma_gemm.py.

Parameters (strides in elements; static, but for ``n``):

* ``n in_sizes out_sizes kernel stride padding dilation``: as of conv.py; ``channels`` of the input
  and ``oc`` of the result, both divisible by 8;
* ``x_offset x_strides``: of the input, (n, \\*spatial), with adjacent channels; all divisible by 8.
  The result's gradient lies as (n, \\*out_sizes, oc);
* ``parts chunk``: how many parts a sum has, and pixels of one, divisible by 32;
* ``rows columns warps_m warps_n slabs``: the tile (mma_tiles.py), over (oc, channels);
* ``half``: ``"bf16"`` or ``"f16"``; ``acc``: ``"float"``.

The result is (part, tap, oc, channels).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.templates.conv.weight_gradient import WEIGHT_GRADIENT
from ocl_inductor.templates.gemm.mma_gemm import NEIGHBOURS
from ocl_inductor.templates.mma_tiles import DEPTH, mma_launch, mma_names, mma_tile_of
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec


def _out_space(p: Params) -> tuple[Size, ...]:
    return (p["parts"], math.prod(p["kernel"]), p["oc"], p["channels"])


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    tile, pixels = mma_tile_of(p), math.prod(p["out_sizes"])
    terms = prod((p["n"], pixels))
    return {
        "out_prefix": ["part", "tap", "m"],
        "mma": device.mma,
        "half_type": p["half"],
        **mma_names(tile),
        "VN": NEIGHBOURS,
        "a_deep": False,
        "b_deep": False,
        "taps": math.prod(p["kernel"]),
        "pixels": pixels,
        "whole_rows": p["oc"] % tile.rows == 0,
        "whole_columns": p["channels"] % tile.columns == 0,
        "whole_depth": is_static(terms) and int(terms) % DEPTH == 0,
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    return mma_launch(tile, p["oc"], p["channels"], p["parts"] * tile["taps"])


def _pixels(p: Params) -> Size:
    return prod((p["n"], *p["out_sizes"]))


def _flops(p: Params) -> Size:
    return prod((2, _pixels(p), math.prod(p["kernel"]), p["oc"], p["channels"]))


def _bytes(p: Params) -> Size:
    inputs = prod((p["n"], *p["in_sizes"], p["channels"]))
    return 2 * (inputs + prod((_pixels(p), p["oc"]))) + 4 * prod(_out_space(p))


MMA_WEIGHT_GRADIENT = TemplateSpec(
    name="mma_weight_gradient",
    file="conv/mma_weight_gradient.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=WEIGHT_GRADIENT.reference,
)
