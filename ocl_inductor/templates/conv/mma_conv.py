"""Convolution of bfloat16 or float16 in one to three dimensions by a GPU's matrix instructions.

How they multiply: mma.cl.jinja; what their sums are: mma_gemm.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.conv.conv import WindowParams, conv_reference
from ocl_inductor.templates.gemm.gemm import whole_tiles
from ocl_inductor.templates.gemm.mma_gemm import NEIGHBOURS, Half
from ocl_inductor.templates.mma_tiles import DEPTH, MmaTile, mma_launch, mma_names
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaConvParams(WindowParams):
    """All static, but for ``n``; offset and strides are divisible by 8; ``acc`` is "float".

    ``padding``: as ``kernel``; ``channels``, of the input and divisible by 8, and ``oc`` of the
    result. The weight lies as (oc, \\*kernel, channels).
    """

    channels: int
    oc: int
    padding: tuple[int, ...]
    half: Half
    tile: MmaTile


def _depth(p: MmaConvParams) -> int:
    return math.prod(p.kernel) * p.channels


def _out_space(p: MmaConvParams) -> tuple[Size, ...]:
    return (p.n, *p.out_sizes, p.oc)


def _tile(device: DeviceInfo, profile: Profile, p: MmaConvParams) -> dict[str, object]:
    tile, depth, pixels = p.tile, _depth(p), math.prod(map(int, p.out_sizes))
    return {
        "out_prefix": ["pn", *(f"p{d}" for d in range(len(p.kernel)))],
        "mma": device.mma,
        "half_type": p.half,
        **mma_names(tile),
        "VN": NEIGHBOURS if p.oc % NEIGHBOURS == 0 else 1,
        "a_deep": True,
        "b_deep": True,
        "depth": depth,
        "pixels": pixels,
        "whole_rows": whole_tiles(prod((p.n, pixels)), tile.rows),
        "whole_columns": p.oc % tile.columns == 0,
        "whole_depth": depth % DEPTH == 0,
    }


def _launch(p: MmaConvParams, tile: Mapping[str, object]) -> LaunchGrid:
    return mma_launch(tile, prod((p.n, tile["pixels"])), p.oc)


def _flops(p: MmaConvParams) -> Size:
    return prod((2, *_out_space(p), _depth(p)))


def _bytes(p: MmaConvParams) -> Size:
    inputs = prod((p.n, *p.in_sizes, p.channels))
    return 2 * (inputs + p.oc * _depth(p)) + 4 * prod(_out_space(p))


MMA_CONV: TemplateSpec[MmaConvParams] = TemplateSpec(
    name="mma_conv",
    params=MmaConvParams,
    file="conv/mma_conv.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=conv_reference,
)
