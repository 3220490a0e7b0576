"""Convolution of bfloat16 in one to three dimensions, summed in float32, by vdpbf16ps.

The instruction and its arithmetic: see bf16_gemm.py.

Parameters (strides in elements; static, but for ``n``, ``x_offset`` and the batch's stride):

* ``n in_sizes out_sizes groups ocg kernel stride dilation x_offset x_strides``: as of conv.py, with
  adjacent channels in the input, which has its padding around it; ``icg``: channels of a group,
  even. A run of ``kernel[-1] * icg`` adjacent elements may be passed as ``icg`` with
  ``kernel[-1] == 1``;
* ``w_layout``: ``"rows"``: the weight lies as (groups * ocg, \\*kernel, icg); ``"panels"``:
  it was packed as [group][panel][\\*kernel][icg / 2][nr][2], with zeros at the end;
* ``mr nv lanes mb``: the blocking, with 16 ``lanes``; tiles are of ``mr`` pixels side by side, no
  more than there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.conv.conv import CONV
from ocl_inductor.templates.gemm.gemm import store_edges
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec


def _tile_space(p: Params) -> tuple[Size, ...]:
    """How many tiles there are along the result's dimensions."""
    *outer, width = p["out_sizes"]
    return (p["n"], *outer, ceil_div(width, p["mr"]))


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    nr, taps = p["nv"] * p["lanes"], math.prod(p["kernel"])
    space = _tile_space(p)
    return {
        "out_prefix": ["pn", *(f"p{d}" for d in range(len(p["kernel"])))],
        "taps": taps,
        "own_panel": p["w_layout"] == "rows",
        "panels": ceil_div(p["ocg"], nr),
        "PAIRS": taps * p["icg"] // 2,
        "W": p["lanes"],
        "NV": p["nv"],
        "NR": nr,
        "MR": p["mr"],
        "MB": p["mb"],
        "tile_space": space,
        "tiles": prod(space),
        "whole_tiles": p["out_sizes"][-1] % p["mr"] == 0,
        "names_registers": device.names_registers,
        **store_edges(p["ocg"], p["lanes"], nr),
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    chunks = size_ceil_div(prod(_tile_space(p)), p["mb"])
    return LaunchGrid((tile["panels"], chunks, p["groups"]), (1, 1, 1))


def _bytes(p: Params) -> Size:
    inputs = prod((p["n"], p["x_strides"][0]))
    weights = prod((p["groups"], p["ocg"], p["icg"], *p["kernel"]))
    return 2 * (inputs + weights) + 4 * prod(CONV.out_space(p))


BF16_CONV = TemplateSpec(
    name="bf16_conv",
    file="conv/bf16_conv.cl.jinja",
    out_space=CONV.out_space,
    tile=_tile,
    launch=_launch,
    flops=CONV.flops,
    bytes=_bytes,
    reference=CONV.reference,
)
