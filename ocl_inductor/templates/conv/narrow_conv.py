"""Convolution of bfloat16 in one to three dimensions by a CPU's matrix unit (AMX).

How the unit multiplies: see narrow_gemm.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.conv.conv import WindowParams, conv_reference
from ocl_inductor.templates.gemm.gemm import store_edges
from ocl_inductor.templates.gemm.narrow_gemm import (
    AHEAD,
    BLOCK,
    INSTRUCTIONS,
    STEP_BYTES,
    Operands,
    operand_bytes,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowConvParams(WindowParams):
    """All static, but for ``n``, ``x_offset`` and the batch's stride. The input has its padding
    around it. The result is a matrix, (pixels, groups * ocg).

    ``groups``; ``icg``, ``ocg``: channels of a group. A run of ``kernel[-1] * icg`` adjacent
    elements may be passed as ``icg`` with ``kernel[-1] == 1``. ``w_layout``: ``"rows"``: the weight
    lies as (groups * ocg, \\*kernel, icg); ``"tiles"``: it was packed as [group][panel][32 columns]
    [step][half][word of K][16][terms of a word], with zeros behind columns and runs. ``operands``,
    ``nr``, ``mb``: as of narrow_gemm.py.
    """

    groups: int
    icg: int
    ocg: int
    w_layout: Literal["rows", "tiles"]
    operands: Operands
    nr: int
    mb: int


def steps_of_run(icg: int, bytes_of_element: int) -> int:
    """Steps of K that a tap takes."""
    return ceil_div(icg * bytes_of_element, STEP_BYTES)


def _pixels(p: NarrowConvParams) -> Size:
    return prod((p.n, *p.out_sizes))


def _tile(device: DeviceInfo, profile: Profile, p: NarrowConvParams) -> dict[str, object]:
    taps, size = math.prod(p.kernel), operand_bytes(p.operands)
    lanes = min(device.vector_width, BLOCK // 2)
    run = steps_of_run(p.icg, size)
    return {
        "out_prefix": ["m"],
        "W": lanes,
        "BYTES": size,
        "DEPTH": STEP_BYTES // size,
        "STEPS": taps * run,
        "STEPS_OF_RUN": run,
        "tail": p.icg % (STEP_BYTES // size),
        "ahead": AHEAD if device.prefetch else 0,
        "taps": taps,
        "pixels": _pixels(p),
        "panels": ceil_div(p.ocg, p.nr),
        "own_panel": p.w_layout == "rows",
        "NR": p.nr,
        "MB": p.mb,
        "instruction": INSTRUCTIONS[p.operands],
        **store_edges(p.ocg, lanes, BLOCK),
    }


def _out_space(p: NarrowConvParams) -> tuple[Size, ...]:
    return (_pixels(p), p.groups * p.ocg)


def _flops(p: NarrowConvParams) -> Size:
    return prod((2, *_out_space(p), p.icg, *p.kernel))


def _launch(p: NarrowConvParams, tile: Mapping[str, object]) -> LaunchGrid:
    chunks = size_ceil_div(_pixels(p), BLOCK * p.mb)
    return LaunchGrid((tile["panels"], chunks, p.groups), (1, 1, 1))


def _bytes(p: NarrowConvParams) -> Size:
    inputs = prod((p.n, p.x_strides[0]))
    weights = prod((p.groups, p.ocg, p.icg, *p.kernel))
    return operand_bytes(p.operands) * (inputs + weights) + 4 * prod(_out_space(p))


NARROW_CONV: TemplateSpec[NarrowConvParams] = TemplateSpec(
    name="narrow_conv",
    params=NarrowConvParams,
    file="conv/narrow_conv.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=conv_reference,
)
