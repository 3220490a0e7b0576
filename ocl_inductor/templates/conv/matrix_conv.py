"""Convolution in float32 by a CPU's matrix unit (AMX); see matrix_gemm.py for how it multiplies.

The input comes split into bfloat16 parts (``MATRIX_CONV_PARTS``), sorted into planes of pixels
that are neighbours for a tap (pixel_planes.py): a tile of 16 outputs' pixels for any tap and 32
channels is a kilobyte in one run, and no window is written out. The weight is read where it lies
and split by the work-items that multiply by it.

Operands of ``matrix_conv``: the parts, the weight, and the input again, for numbers that the unit
refuses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.conv.conv import WindowParams, conv_reference
from ocl_inductor.templates.conv.pixel_planes import TILE, Planes, planes
from ocl_inductor.templates.gemm.gemm import store_edges
from ocl_inductor.templates.gemm.matrix_gemm import (
    BLOCK,
    DEPTH,
    LEAST_EXPONENT,
    LEAST_SUM,
    PREFETCH_ROWS,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixConvPartsParams(WindowParams):
    """All static, but for ``n``; ``acc`` is "float". ``padding``: as ``kernel``; ``channels``: of
    the input, a multiple of 32."""

    channels: int
    padding: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixConvParams(MatrixConvPartsParams):
    """``oc``: channels of the result; ``w_offset``: of the contiguous weight (oc, channels,
    \\*kernel). ``nr``: output channels of a panel, ``depth``: input channels whose weights are in
    cache at a time, both multiples of 32; ``mb``: blocks of 32 positions to a work-item."""

    oc: int
    w_offset: Size
    nr: int
    depth: int
    mb: int


def planes_of(p: MatrixConvPartsParams) -> Planes:
    return planes(p.kernel, p.stride, p.dilation, p.out_sizes)


def plane_words(channels: int, positions: int) -> int:
    """32-bit words of a plane: [32 channels][part][position][16 pairs], and for each tile of
    positions the largest numbers, as 16 lanes."""
    return (3 * channels // 2 + 1) * positions


def _shared(p: MatrixConvPartsParams) -> dict[str, object]:
    sorted_ = planes_of(p)
    return {
        "planes": sorted_,
        "steps": p.channels // DEPTH,
        "words": plane_words(p.channels, sorted_.positions),
    }


# -- the parts of the input ----------------------------------------------------------------


def _parts_space(p: MatrixConvPartsParams) -> tuple[Size, ...]:
    found = planes_of(p)
    return (p.n, len(found.phases), plane_words(p.channels, found.positions))


def _parts_tile(
    device: DeviceInfo, profile: Profile, p: MatrixConvPartsParams
) -> dict[str, object]:
    return _shared(p)


def _parts_launch(p: MatrixConvPartsParams, tile: Tile) -> LaunchGrid:
    found: Planes = tile["planes"]
    return LaunchGrid((found.positions // TILE, len(found.phases), p.n), (1, 1, 1))


def _numbers(p: MatrixConvPartsParams) -> Size:
    found = planes_of(p)
    return prod((p.n, len(found.phases), found.positions, p.channels))


def _parts_reference(x: np.ndarray) -> np.ndarray:
    """The three parts of each number, as float32 along a new last dimension."""
    parts, rest = [], x.astype(np.float32)
    for _ in range(3):
        part = (rest.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        parts.append(part)
        rest = rest - part
    return np.stack(parts, -1)


MATRIX_CONV_PARTS: TemplateSpec[MatrixConvPartsParams] = TemplateSpec(
    name="matrix_conv_parts",
    params=MatrixConvPartsParams,
    file="conv/matrix_conv_parts.cl.jinja",
    out_space=_parts_space,
    tile=_parts_tile,
    launch=_parts_launch,
    flops=lambda p: 4 * _numbers(p),
    bytes=lambda p: 10 * _numbers(p),
    reference=_parts_reference,
)


# -- the products --------------------------------------------------------------------------


def _out_space(p: MatrixConvParams) -> tuple[Size, ...]:
    return (p.n, *p.out_sizes, p.oc)


def _tile(device: DeviceInfo, profile: Profile, p: MatrixConvParams) -> dict[str, object]:
    found = planes_of(p)
    words = plane_words(p.channels, found.positions)
    part = DEPTH // 2 * found.positions
    lanes = min(device.vector_width, BLOCK // 2)
    return _shared(p) | {
        "tap_at": [f * words + shift * (DEPTH // 2) for f, shift in found.taps],
        "part": part,
        "out_prefix": ["image", *(f"o{d}" for d in range(len(p.kernel)))],
        "W": lanes,
        "NR": p.nr,
        "MB": p.mb,
        "KS": p.depth // DEPTH,
        "prefetched": device.prefetch,
        "ahead": PREFETCH_ROWS,
        "least_exponent": LEAST_EXPONENT,
        "least_sum": LEAST_SUM,
        **store_edges(p.oc, lanes, BLOCK),
    }


def _launch(p: MatrixConvParams, tile: Tile) -> LaunchGrid:
    blocks = prod((p.n, tile["planes"].blocks))
    return LaunchGrid((ceil_div(p.oc, p.nr), size_ceil_div(blocks, p.mb)), (1, 1))


def _flops(p: MatrixConvParams) -> Size:
    return prod((2, p.n, *p.out_sizes, p.oc, p.channels, *p.kernel))


def _bytes(p: MatrixConvParams) -> Size:
    results = prod((p.n, *p.out_sizes, p.oc))
    weights = prod((p.oc, p.channels, *p.kernel))
    return 4 * (results + weights) + 6 * _numbers(p)


def _reference(x: np.ndarray, weight: np.ndarray, **geometry: tuple[int, ...]) -> np.ndarray:
    return conv_reference(x, weight, **geometry, groups=1)


MATRIX_CONV: TemplateSpec[MatrixConvParams] = TemplateSpec(
    name="matrix_conv",
    params=MatrixConvParams,
    file="conv/matrix_conv.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
