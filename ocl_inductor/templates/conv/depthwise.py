"""Depthwise convolution: each channel is convolved with a window of its own (``vector`` profile).

Parameters (sizes and strides in elements; ``n`` and spatial sizes may be symbolic):

* ``n``, ``in_sizes``, ``out_sizes``: two spatial sizes each, the first 1 where ``ndim`` is 1;
* ``ndim``: spatial dimensions of the result, 1 or 2; ``channels``: static, a multiple of ``lanes``;
* ``kernel stride padding dilation``: two static entries each;
* ``x_offset``, ``x_strides``: (n, y, x), the channel's is 1; ``narrow``: whether the input has a
  half type, which is converted as it is read;
* weight: (\\*kernel, channel); ``lanes``: elements of a vector; ``rows_hint``: typical n * rows;
* ``acc``: ``"float"`` or ``"double"``.

Bytes, not arithmetic, are the limit: 2 * taps operations for each element read and written. What
the kernel must avoid is a check for each tap, and loading an input once for each window it is in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.gemm.gemm import MAX_UNROLLED_STORE
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec

#: Most pixels that one round computes; their sums and a row of weights stay in registers.
_MAX_PIXELS = 8
#: Work-items for each compute unit that even out their speeds.
_ITEMS_PER_UNIT = 8


def _out_space(p: Params) -> tuple[Size, ...]:
    return (p["n"], *p["out_sizes"][2 - p["ndim"] :], p["channels"])


def _out_prefix(p: Params, column: str) -> list[str]:
    return ["pn", column] if p["ndim"] == 1 else ["pn", "p0", column]


def _reach(p: Params) -> int:
    """Columns of the input under one window."""
    return int((p["kernel"][1] - 1) * p["dilation"][1] + 1)


def _pixels(p: Params) -> int:
    """Pixels of a round: few single ones should be left between the edges."""
    columns, inputs = p["out_sizes"][1], p["in_sizes"][1]
    if not (is_static(columns) and is_static(inputs)):
        return 4
    stride, padding = p["stride"][1], p["padding"][1]
    inside = sum(
        0 <= q * stride - padding and q * stride - padding + _reach(p) <= int(inputs)
        for q in range(int(columns))
    )

    def loads(pixels: int) -> float:
        """Vectors loaded for all pixels inside, relative to one window's row."""
        group = len(_columns(p, pixels)) + p["kernel"][1]
        return (inside // pixels) * group + (inside % pixels) * 2 * p["kernel"][1]

    return min(range(1, min(_MAX_PIXELS, max(inside, 1)) + 1), key=loads)


def _columns(p: Params, pixels: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """Input columns of a round, each with the (pixel, tap) pairs that use it."""
    uses: dict[int, list[tuple[int, int]]] = {}
    for pixel in range(pixels):
        for tap in range(p["kernel"][1]):
            column = pixel * p["stride"][1] + tap * p["dilation"][1]
            uses.setdefault(column, []).append((pixel, tap))
    return sorted(uses.items())


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    pixels = _pixels(p)
    items = _ITEMS_PER_UNIT * device.compute_units
    rows = max(ceil_div(p["rows_hint"], items), 1)
    # Few rows: the channels are shared out as well.
    parts = max(items // max(ceil_div(p["rows_hint"], rows), 1), 1)
    vectors = p["channels"] // p["lanes"]
    return {
        "W": p["lanes"],
        "P": pixels,
        "ROWS": rows,
        "CHANNELS": ceil_div(vectors, min(parts, vectors)) * p["lanes"],
        "columns": _columns(p, pixels),
        "span": (pixels - 1) * p["stride"][1] + _reach(p),
        "out_prefix": _out_prefix,
        "max_unrolled_store": MAX_UNROLLED_STORE,
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    rows = size_ceil_div(prod((p["n"], p["out_sizes"][0])), tile["ROWS"])
    return LaunchGrid((rows, ceil_div(p["channels"], tile["CHANNELS"]), 1), (1, 1, 1))


def _flops(p: Params) -> Size:
    return prod((2, p["n"], *p["out_sizes"], p["channels"], *p["kernel"]))


def _bytes(p: Params) -> Size:
    item = 8 if p["acc"] == "double" else 4
    inputs = prod((p["n"], *p["in_sizes"], p["channels"]))
    outputs = prod((p["n"], *p["out_sizes"], p["channels"]))
    rest = item * (outputs + math.prod(p["kernel"]) * p["channels"])
    return (2 if p["narrow"] else item) * inputs + rest


def _reference(x: np.ndarray, w: np.ndarray, **geometry: Any) -> np.ndarray:
    from ocl_inductor.templates.conv.conv import CONV

    return CONV.reference(x, w, groups=x.shape[1], **geometry)


DEPTHWISE = TemplateSpec(
    name="depthwise",
    file="conv/depthwise.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
