"""Convolution of bfloat16 or of bytes in one to three dimensions, by products of words in vectors.

The instructions and their arithmetic: see dot_gemm.py.
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
from ocl_inductor.templates.gemm.dot_words import DOT_WORDS
from ocl_inductor.templates.gemm.gemm import store_edges
from ocl_inductor.templates.gemm.narrow_gemm import Operands
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DotConvParams(WindowParams):
    """All static, but for ``n``, ``x_offset`` and the batch's stride. The input has its padding
    around it. ``operands``: the type of the input, and of the weight but for the sign of bytes;
    ``acc`` is that of its words.

    ``groups``; ``icg``, ``ocg``: channels of a group, ``icg`` of whole words. A run of
    ``kernel[-1] * icg`` adjacent elements may be passed as ``icg`` with ``kernel[-1] == 1``.
    ``w_layout``: ``"rows"``: the weight lies as (groups * ocg, \\*kernel, icg); ``"panels"``: it
    was packed as [group][panel][\\*kernel][icg / terms][nr][terms], with zeros at the end.
    ``tile``: with 16 lanes; tiles are of ``mr`` pixels side by side, no more than there are.
    """

    operands: Operands
    groups: int
    icg: int
    ocg: int
    w_layout: Literal["rows", "panels"]
    tile: Blocking


def _tile_space(p: DotConvParams) -> tuple[Size, ...]:
    """How many tiles there are along the result's dimensions."""
    *outer, width = p.out_sizes
    return (p.n, *outer, ceil_div(int(width), p.tile.mr))


def _tile(device: DeviceInfo, profile: Profile, p: DotConvParams) -> dict[str, object]:
    tile, taps, words = p.tile, math.prod(p.kernel), DOT_WORDS[p.operands]
    nr = tile.nr
    space = _tile_space(p)
    return {
        "out_prefix": ["pn", *(f"p{d}" for d in range(len(p.kernel)))],
        "taps": taps,
        "own_panel": p.w_layout == "rows",
        "panels": ceil_div(p.ocg, nr),
        "words": words,
        "WORDS": taps * p.icg // words.terms,
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


def _out_space(p: DotConvParams) -> tuple[Size, ...]:
    return (p.n, *p.out_sizes, p.groups * p.ocg)


def _flops(p: DotConvParams) -> Size:
    return prod((2, *_out_space(p), p.icg, *p.kernel))


def _launch(p: DotConvParams, tile: Mapping[str, object]) -> LaunchGrid:
    chunks = size_ceil_div(prod(_tile_space(p)), p.tile.mb)
    return LaunchGrid((tile["panels"], chunks, p.groups), (1, 1, 1))


def _bytes(p: DotConvParams) -> Size:
    inputs = prod((p.n, p.x_strides[0]))
    weights = prod((p.groups, p.ocg, p.icg, *p.kernel))
    return DOT_WORDS[p.operands].itemsize * (inputs + weights) + 4 * prod(_out_space(p))


DOT_CONV: TemplateSpec[DotConvParams] = TemplateSpec(
    name="dot_conv",
    params=DotConvParams,
    file="conv/dot_conv.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=conv_reference,
)
