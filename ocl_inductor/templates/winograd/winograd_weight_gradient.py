"""Gradient of the weight of a 3x3 convolution by F(4x4, 3x3): 36 multiplications for 144.

The algorithm of winograd.py, derived by its weight: with the inputs d of a tile and the gradients g
of its outputs the gradient of the window is ``G' [sum over tiles of (A g A') * (B' d B)] G``. A
kernel brings the gradients of all tiles to the interpolation points, ``winograd_inputs`` the
inputs; a third sums their products, rows of channels against columns of channels, and keeps those
of all points in its core's cache until it has made 9 numbers of each 36.

Parameters of ``winograd_gradients`` (all static): as those of winograd_points.py; ``x_offset`` and
``x_strides`` are the gradient's.

Parameters of ``winograd_weight_gradient`` (all static):

* ``tiles``; ``rows``, ``columns``: channels of the output and of the input, multiples of ``lanes``;
* ``parts``, ``tiles_per_part``: the result has a sum for each part of the tiles;
* ``mr nv lanes``: the register tile; ``mb``: tiles of rows to a work-item; ``acc``: ``"float"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import ceil_div, choose_strip, inner_loop, prefetching
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec
from ocl_inductor.templates.tile_tables import tile_table
from ocl_inductor.templates.winograd.winograd import (
    MAX_CHAIN,
    OUTPUTS,
    POINTS,
    output_coefficients,
    tiles_of,
    weight_coefficients,
    weight_constants,
)
from ocl_inductor.templates.winograd.winograd_points import transform_launch, transform_tile

#: Products at all points stay in a second-level cache, and a part's columns of one point as well:
#: their shares.
_SHARE, _PART_SHARE = 3 / 8, 1 / 8
#: Additions and multiplications for a vector of one tile's gradients.
_GRADIENT_FLOPS = 10 * 14


def choose_tile(device: DeviceInfo, tiles: int, rows: int, columns: int) -> dict[str, int]:
    """``mr nv lanes mb parts tiles_per_part``."""
    strip = choose_strip(device, "float", rows, columns)
    wanted = tile_table(device).items_per_unit * device.compute_units
    panels, row_tiles = ceil_div(columns, strip.nr), ceil_div(rows, strip.mr)
    fitting = max(int(_SHARE * device.caches.l2) // (4 * POINTS**2 * strip.nr * strip.mr), 1)
    chunks = max(
        ceil_div(row_tiles, fitting), min(ceil_div(wanted, panels), ceil_div(row_tiles, 2))
    )
    parts = ceil_div(tiles * strip.nr * 4, int(_PART_SHARE * device.caches.l2))
    parts = max(parts, min(ceil_div(wanted, panels * chunks), ceil_div(tiles, 4 * MAX_CHAIN)))
    each = ceil_div(tiles, parts)
    return {
        "mr": strip.mr, "nv": strip.nv, "lanes": strip.lanes, "mb": ceil_div(row_tiles, chunks),
        "parts": ceil_div(tiles, each), "tiles_per_part": each,
    }  # fmt: skip


def _gradients_space(p: Params) -> tuple[Size, ...]:
    return (POINTS**2, tiles_of(p["n"], p["out_sizes"]), p["channels"])


def _gradients_flops(p: Params) -> Size:
    return prod((_GRADIENT_FLOPS, tiles_of(p["n"], p["out_sizes"]), p["channels"]))


def _gradients_bytes(p: Params) -> Size:
    points = prod((POINTS**2, tiles_of(p["n"], p["out_sizes"])))
    return 4 * (prod((p["n"], *p["out_sizes"])) + points) * p["channels"]


def _gradients_reference(g: np.ndarray) -> np.ndarray:
    """``g`` (n, c, y, x) as (36, tiles, c) in float64."""
    edges = [(0, -s % OUTPUTS) for s in g.shape[2:]]
    whole = np.pad(g.astype(np.float64), [(0, 0), (0, 0), *edges])
    tiles = sliding_window_view(whole, (OUTPUTS, OUTPUTS), axis=(2, 3))
    tiles = tiles[:, :, ::OUTPUTS, ::OUTPUTS]
    matrix = output_coefficients()
    found = np.einsum("ip,ncyxij,jq->pqnyxc", matrix, tiles, matrix)
    return found.reshape(POINTS**2, -1, g.shape[1])


WINOGRAD_GRADIENTS = TemplateSpec(
    name="winograd_gradients",
    file="winograd/winograd_gradients.cl.jinja",
    out_space=_gradients_space,
    tile=transform_tile,
    launch=transform_launch,
    flops=_gradients_flops,
    bytes=_gradients_bytes,
    reference=_gradients_reference,
)


def _out_space(p: Params) -> tuple[Size, ...]:
    return (p["parts"], p["rows"], 3, 3, p["columns"])


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    nr = p["nv"] * p["lanes"]
    # The last rows of an item may move up by less than a register tile.
    rows = (p["mb"] + 1) * p["mr"]
    return {
        "W": p["lanes"],
        "NV": p["nv"],
        "NR": nr,
        "MR": p["mr"],
        "ROWS": p["mb"] * p["mr"],
        "chain": MAX_CHAIN,
        # An odd number of cache lines: what a transform reads is spread over all sets.
        "products_step": rows * p["nv"] | 1,
        **weight_constants(),
        **prefetching(device, nr, p["acc"], p["tiles_per_part"]),
        **inner_loop(device),
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    panels, chunks = ceil_div(p["columns"], tile["NR"]), ceil_div(p["rows"], tile["ROWS"])
    return LaunchGrid((panels, chunks, p["parts"]), (1, 1, 1))


def _flops(p: Params) -> Size:
    """Of the products: how many pixels the tiles hold is not known here."""
    return prod((2, POINTS**2, p["tiles"], p["rows"], p["columns"]))


def _bytes(p: Params) -> Size:
    read = POINTS**2 * p["tiles"] * (p["rows"] + p["columns"])
    return 4 * (read + 9 * p["parts"] * p["rows"] * p["columns"])


def _reference(g: np.ndarray, d: np.ndarray) -> np.ndarray:
    """``g`` (36, tiles, rows) and ``d`` (36, tiles, columns) as (rows, 3, 3, columns)."""
    products = np.einsum("ptm,ptn->pmn", g.astype(np.float64), d.astype(np.float64))
    matrix = np.array(weight_coefficients())
    points = products.reshape(POINTS, POINTS, *products.shape[1:])
    return np.einsum("pi,pqmn,qj->mijn", matrix, points, matrix)


WINOGRAD_WEIGHT_GRADIENT = TemplateSpec(
    name="winograd_weight_gradient",
    file="winograd/winograd_weight_gradient.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
