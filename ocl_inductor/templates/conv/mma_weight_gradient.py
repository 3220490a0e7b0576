"""The weight's gradient of a convolution of bfloat16 or float16 by a GPU's matrix instructions.

How they multiply: mma.cl.jinja; what their sums are: mma_gemm.py.

The result is (part, tap, oc, channels).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.templates.conv.mma_conv import MmaConvParams
from ocl_inductor.templates.conv.weight_gradient import weight_gradient_reference
from ocl_inductor.templates.gemm.mma_gemm import NEIGHBOURS
from ocl_inductor.templates.mma_tiles import DEPTH, mma_launch, mma_names
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaWeightGradientParams(MmaConvParams):
    """As of the convolution; ``oc`` is divisible by 8 as well, and the result's gradient lies as
    (n, \\*out_sizes, oc). The tile is over (oc, channels).

    ``parts``, ``chunk``: how many parts a sum has, and pixels of one, divisible by 32.
    """

    parts: int
    chunk: int


def _out_space(p: MmaWeightGradientParams) -> tuple[Size, ...]:
    return (p.parts, math.prod(p.kernel), p.oc, p.channels)


def _tile(device: DeviceInfo, profile: Profile, p: MmaWeightGradientParams) -> dict[str, object]:
    tile, pixels = p.tile, math.prod(map(int, p.out_sizes))
    terms = prod((p.n, pixels))
    return {
        "out_prefix": ["part", "tap", "m"],
        "mma": device.mma,
        "half_type": p.half,
        **mma_names(tile),
        "VN": NEIGHBOURS,
        "a_deep": False,
        "b_deep": False,
        "taps": math.prod(p.kernel),
        "pixels": pixels,
        "whole_rows": p.oc % tile.rows == 0,
        "whole_columns": p.channels % tile.columns == 0,
        "whole_depth": is_static(terms) and int(terms) % DEPTH == 0,
    }


def _launch(p: MmaWeightGradientParams, tile: Tile) -> LaunchGrid:
    return mma_launch(tile, p.oc, p.channels, p.parts * tile["taps"])


def _pixels(p: MmaWeightGradientParams) -> Size:
    return prod((p.n, *p.out_sizes))


def _flops(p: MmaWeightGradientParams) -> Size:
    return prod((2, _pixels(p), math.prod(p.kernel), p.oc, p.channels))


def _bytes(p: MmaWeightGradientParams) -> Size:
    inputs = prod((p.n, *p.in_sizes, p.channels))
    return 2 * (inputs + prod((_pixels(p), p.oc))) + 4 * prod(_out_space(p))


MMA_WEIGHT_GRADIENT: TemplateSpec[MmaWeightGradientParams] = TemplateSpec(
    name="mma_weight_gradient",
    params=MmaWeightGradientParams,
    file="conv/mma_weight_gradient.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=weight_gradient_reference,
)
