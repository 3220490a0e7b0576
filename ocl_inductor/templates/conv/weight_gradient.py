"""Gradient of a convolution's weight: one product for each tap, summed over windows (``vector``).

``result[part, g, r, tap, c]`` is the sum over a part of the windows of one operand's channel at the
window times the other's channel at the input under ``tap``. The ``coarse`` operand has an element
for each window, the ``fine`` one is what windows slide over; both lie channels-last. Rows are
channels of the one, columns (lanes) of the other.

Windows are visited in runs along the last dimension, of which a tap knows where it enters and
leaves the input; so no window is ever written to memory, and nothing is checked for an element.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import (
    MAX_K_CHAIN,
    Blocking,
    ceil_div,
    inner_loop,
    prefetching,
    size_ceil_div,
)
from ocl_inductor.templates.gemm.gemm import store_edges
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsParams(TemplateParams):
    """What both products over windows share. Sizes and strides in elements; ``n`` and spatial sizes
    may be symbolic. ``acc``: ``"float"`` or ``"double"``.

    ``n``, ``windows``: spatial sizes of the coarse operand, ``extents``: of the fine one; ``kernel
    stride padding dilation``: one static entry for each spatial dimension.
    """

    n: Size
    windows: tuple[Size, ...]
    extents: tuple[Size, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightGradientParams(WindowsParams):
    """``groups``; ``rows columns``: channels to a group; ``rows_fine``: whether rows are the fine
    operand's. ``row_offset row_strides column_offset column_strides``: (n, \\*spatial), the
    channel's is 1. ``parts``, ``runs_per_part``: see :func:`run_length`.

    ``tile``: ``mr`` is at most ``rows``, ``lanes`` at most ``columns``.
    """

    groups: int
    rows: int
    columns: int
    rows_fine: bool
    row_offset: Size
    row_strides: tuple[Size, ...]
    column_offset: Size
    column_strides: tuple[Size, ...]
    parts: int
    runs_per_part: Size
    tile: Blocking


def run_length(windows: Size) -> int:
    """Windows of one run: those of the last dimension, or a piece of them that keeps sums short."""
    return min(int(windows), MAX_K_CHAIN) if is_static(windows) else MAX_K_CHAIN


def count_runs(n: Size, windows: tuple[Size, ...]) -> Size:
    """Runs of all windows together."""
    return prod((n, *windows[:-1], size_ceil_div(windows[-1], run_length(windows[-1]))))


def _out_space(p: WeightGradientParams) -> tuple[Size, ...]:
    inner = (*p.kernel, p.rows) if p.rows_fine else (p.rows, *p.kernel)
    return (p.parts, p.groups, *inner, p.columns)


def _tile(device: DeviceInfo, profile: Profile, p: WeightGradientParams) -> dict[str, object]:
    nd, tile, nr = len(p.kernel), p.tile, p.tile.nr
    taps = [f"t{d}" for d in range(nd)]
    length = run_length(p.windows[-1])
    block = max(MAX_K_CHAIN // length, 1)
    runs = p.runs_per_part
    return {
        "W": tile.lanes,
        "NV": tile.nv,
        "NR": nr,
        "MR": tile.mr,
        "MB": tile.mb,
        "nd": nd,
        "run_length": length,
        "block": 0 if is_static(runs) and int(runs) <= block else block,
        "out_prefix": ["part", "group", *((*taps, "m") if p.rows_fine else ("m", *taps))],
        **prefetching(device, nr, p.acc, p.windows[-1]),
        **store_edges(p.columns, tile.lanes, nr),
        **inner_loop(device),
    }


def _launch(p: WeightGradientParams, tile: Tile) -> LaunchGrid:
    panels = ceil_div(p.columns, tile["NR"])
    chunks = ceil_div(p.rows, tile["MR"] * tile["MB"])
    return LaunchGrid((panels, chunks, p.parts * p.groups), (1, 1, 1))


def _flops(p: WeightGradientParams) -> Size:
    return prod((2, p.n, *p.windows, *p.kernel, p.groups, p.rows, p.columns))


def _bytes(p: WeightGradientParams) -> Size:
    fine, coarse = p.rows, p.columns
    if not p.rows_fine:
        fine, coarse = coarse, fine
    read = prod((p.n, *p.windows, coarse)) + prod((p.n, *p.extents, fine))
    return p.itemsize * p.groups * (read + prod((p.parts, *p.kernel, p.rows, p.columns)))


def weight_gradient_reference(
    coarse: np.ndarray,
    fine: np.ndarray,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> np.ndarray:
    """In float64; operands (n, groups*a, \\*windows) and (n, groups*b, \\*extents)."""
    n, channels, *windows = coarse.shape
    nd, outer, inner = len(kernel), channels // groups, fine.shape[1] // groups
    edges = [(0, 0), (0, 0), *((p, p) for p in padding)]
    left = coarse.astype(np.float64).reshape(n, groups, outer, *windows)
    wide = np.pad(fine.astype(np.float64), edges).reshape(
        n, groups, inner, *(e + 2 * p for e, p in zip(fine.shape[2:], padding, strict=True))
    )
    result = np.zeros((groups, outer, inner, *kernel))
    axes = "xyz"[:nd]
    for tap in itertools.product(*map(range, kernel)):
        under = [slice(None)] * 3
        for t, d, w, s in zip(tap, dilation, windows, stride, strict=True):
            under.append(slice(t * d, t * d + (w - 1) * s + 1, s))
        at: tuple[Any, ...] = (..., *tap)
        result[at] = np.einsum(f"nga{axes},ngb{axes}->gab", left, wide[tuple(under)])
    return result.reshape(groups * outer, inner, *kernel)


WEIGHT_GRADIENT: TemplateSpec[WeightGradientParams] = TemplateSpec(
    name="weight_gradient",
    params=WeightGradientParams,
    file="conv/weight_gradient.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=weight_gradient_reference,
)
