"""Depthwise convolution: each channel is convolved with a window of its own (``vector`` profile).

Bytes, not arithmetic, are the limit: 2 * taps operations for each element read and written. What
the kernel must avoid is a check for each tap, and loading an input once for each window it is in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, contiguous_strides, is_static, prod
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.conv.conv import WindowParams, conv_reference
from ocl_inductor.templates.gemm.gemm import MAX_UNROLLED_STORE
from ocl_inductor.templates.spec import Hint, LaunchGrid, Profile, TemplateSpec, Tile, tunable
from ocl_inductor.templates.trial import Trial, strided, tolerance_of_sum

#: Most pixels that one round computes; their sums and a row of weights stay in registers.
_MAX_PIXELS = 8
#: Work-items for each compute unit that even out their speeds.
_ITEMS_PER_UNIT = 8


def _rounds(device: DeviceInfo, p: DepthwiseParams, hint: Hint) -> Sequence[int]:
    """Pixels of a round that are worth trying; the default, 0, is what loads least."""
    columns = hint(p.out_sizes[1])
    return (0, *(n for n in range(1, _MAX_PIXELS + 1) if n <= columns and n != _least_loads(p)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseParams(WindowParams):
    """Two entries for spatial dimensions, of which the first is of one row where ``ndim`` is 1;
    ``padding``: as ``kernel``. ``acc``: ``"float"`` or ``"double"``.

    ``ndim``: spatial dimensions of the result, 1 or 2; ``channels``: a multiple of ``lanes``, the
    elements of a vector. ``narrow``: whether the input has a half type, which is converted as it is
    read. ``rows_hint``: typical n * rows. ``pixels``: that one round computes; 0 for as many as
    load least. The weight lies as (\\*kernel, channel).
    """

    ndim: int
    channels: int
    padding: tuple[int, ...]
    narrow: bool
    lanes: int
    rows_hint: int
    pixels: int = field(default=0, metadata=tunable(_rounds))


def _out_space(p: DepthwiseParams) -> tuple[Size, ...]:
    return (p.n, *p.out_sizes[2 - p.ndim :], p.channels)


def _out_prefix(p: DepthwiseParams, column: str) -> list[str]:
    return ["pn", column] if p.ndim == 1 else ["pn", "p0", column]


def _reach(p: DepthwiseParams) -> int:
    """Columns of the input under one window."""
    return int((p.kernel[1] - 1) * p.dilation[1] + 1)


def _least_loads(p: DepthwiseParams) -> int:
    """Pixels of a round: few single ones should be left between the edges."""
    columns, inputs = p.out_sizes[1], p.in_sizes[1]
    if not (is_static(columns) and is_static(inputs)):
        return 4
    stride, padding = p.stride[1], p.padding[1]
    inside = sum(
        0 <= q * stride - padding and q * stride - padding + _reach(p) <= int(inputs)
        for q in range(int(columns))
    )

    def loads(pixels: int) -> float:
        """Vectors loaded for all pixels inside, relative to one window's row."""
        group = len(_columns(p, pixels)) + p.kernel[1]
        return (inside // pixels) * group + (inside % pixels) * 2 * p.kernel[1]

    return min(range(1, min(_MAX_PIXELS, max(inside, 1)) + 1), key=loads)


def _columns(p: DepthwiseParams, pixels: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """Input columns of a round, each with the (pixel, tap) pairs that use it."""
    uses: dict[int, list[tuple[int, int]]] = {}
    for pixel in range(pixels):
        for tap in range(p.kernel[1]):
            column = pixel * p.stride[1] + tap * p.dilation[1]
            uses.setdefault(column, []).append((pixel, tap))
    return sorted(uses.items())


def _tile(device: DeviceInfo, profile: Profile, p: DepthwiseParams) -> dict[str, object]:
    pixels = p.pixels or _least_loads(p)
    items = _ITEMS_PER_UNIT * device.compute_units
    rows = max(ceil_div(p.rows_hint, items), 1)
    # Few rows: the channels are shared out as well.
    parts = max(items // max(ceil_div(p.rows_hint, rows), 1), 1)
    vectors = p.channels // p.lanes
    return {
        "W": p.lanes,
        "P": pixels,
        "ROWS": rows,
        "CHANNELS": ceil_div(vectors, min(parts, vectors)) * p.lanes,
        "columns": _columns(p, pixels),
        "span": (pixels - 1) * p.stride[1] + _reach(p),
        "out_prefix": _out_prefix,
        "max_unrolled_store": MAX_UNROLLED_STORE,
    }


def _launch(p: DepthwiseParams, tile: Tile) -> LaunchGrid:
    rows = size_ceil_div(prod((p.n, p.out_sizes[0])), tile["ROWS"])
    return LaunchGrid((rows, ceil_div(p.channels, tile["CHANNELS"]), 1), (1, 1, 1))


def _flops(p: DepthwiseParams) -> Size:
    return prod((2, p.n, *p.out_sizes, p.channels, *p.kernel))


def _bytes(p: DepthwiseParams) -> Size:
    inputs = prod((p.n, *p.in_sizes, p.channels))
    outputs = prod((p.n, *p.out_sizes, p.channels))
    rest = p.itemsize * (outputs + math.prod(p.kernel) * p.channels)
    return (2 if p.narrow else p.itemsize) * inputs + rest


def _reference(x: np.ndarray, w: np.ndarray, **geometry: Any) -> np.ndarray:
    return conv_reference(x, w, groups=x.shape[1], **geometry)


def _trial(p: DepthwiseParams, random: np.random.Generator) -> Trial[DepthwiseParams] | None:
    """None for an input of another type than the sums."""
    if p.narrow:
        return None
    lying, x = strided(random, p.x_offset, (p.n, *p.in_sizes, p.channels), (*p.x_strides, 1), p.acc)
    size = (*p.kernel, p.channels)
    taps, w = strided(random, 0, size, contiguous_strides(size), p.acc)
    geometry = {"stride": p.stride, "padding": p.padding, "dilation": p.dilation}
    weight = np.moveaxis(w, -1, 0)[:, None]
    expected = np.moveaxis(_reference(np.moveaxis(x, -1, 1), weight, **geometry), 1, -1)
    expected = expected[:, 0] if p.ndim == 1 else expected
    return Trial(p, (lying, taps), expected, tolerance_of_sum(p.acc, math.prod(p.kernel)))


DEPTHWISE: TemplateSpec[DepthwiseParams] = TemplateSpec(
    name="depthwise",
    params=DepthwiseParams,
    file="conv/depthwise.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
    trial=_trial,
)
