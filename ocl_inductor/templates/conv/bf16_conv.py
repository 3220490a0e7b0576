"""Convolution of bfloat16 in one to three dimensions, summed in float32, by vdpbf16ps.

The instruction and its arithmetic: see bf16_gemm.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import Blocking, ceil_div, size_ceil_div
from ocl_inductor.templates.conv.conv import WindowParams, conv_reference
from ocl_inductor.templates.gemm.gemm import store_edges
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Bf16ConvParams(WindowParams):
    """All static, but for ``n``, ``x_offset`` and the batch's stride. The input has its padding
    around it; ``acc`` is "float".

    ``groups``; ``icg``, ``ocg``: channels of a group, ``icg`` even. A run of ``kernel[-1] * icg``
    adjacent elements may be passed as ``icg`` with ``kernel[-1] == 1``. ``w_layout``: ``"rows"``:
    the weight lies as (groups * ocg, \\*kernel, icg); ``"panels"``: it was packed as
    [group][panel][\\*kernel][icg / 2][nr][2], with zeros at the end. ``tile``: with 16 lanes; tiles
    are of ``mr`` pixels side by side, no more than there are.
    """

    groups: int
    icg: int
    ocg: int
    w_layout: Literal["rows", "panels"]
    tile: Blocking


def _tile_space(p: Bf16ConvParams) -> tuple[Size, ...]:
    """How many tiles there are along the result's dimensions."""
    *outer, width = p.out_sizes
    return (p.n, *outer, ceil_div(int(width), p.tile.mr))


def _tile(device: DeviceInfo, profile: Profile, p: Bf16ConvParams) -> dict[str, object]:
    tile, taps = p.tile, math.prod(p.kernel)
    nr = tile.nr
    space = _tile_space(p)
    return {
        "out_prefix": ["pn", *(f"p{d}" for d in range(len(p.kernel)))],
        "taps": taps,
        "own_panel": p.w_layout == "rows",
        "panels": ceil_div(p.ocg, nr),
        "PAIRS": taps * p.icg // 2,
        "W": tile.lanes,
        "NV": tile.nv,
        "NR": nr,
        "MR": tile.mr,
        "MB": tile.mb,
        "tile_space": space,
        "tiles": prod(space),
        "whole_tiles": int(p.out_sizes[-1]) % tile.mr == 0,
        "names_registers": device.names_registers,
        **store_edges(p.ocg, tile.lanes, nr),
    }


def _out_space(p: Bf16ConvParams) -> tuple[Size, ...]:
    return (p.n, *p.out_sizes, p.groups * p.ocg)


def _flops(p: Bf16ConvParams) -> Size:
    return prod((2, *_out_space(p), p.icg, *p.kernel))


def _launch(p: Bf16ConvParams, tile: Mapping[str, object]) -> LaunchGrid:
    chunks = size_ceil_div(prod(_tile_space(p)), p.tile.mb)
    return LaunchGrid((tile["panels"], chunks, p.groups), (1, 1, 1))


def _bytes(p: Bf16ConvParams) -> Size:
    inputs = prod((p.n, p.x_strides[0]))
    weights = prod((p.groups, p.ocg, p.icg, *p.kernel))
    return 2 * (inputs + weights) + 4 * prod(_out_space(p))


BF16_CONV: TemplateSpec[Bf16ConvParams] = TemplateSpec(
    name="bf16_conv",
    params=Bf16ConvParams,
    file="conv/bf16_conv.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=conv_reference,
)
