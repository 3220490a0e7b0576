"""Gradient of the weight of a 3x3 convolution by F(4x4, 3x3): 36 multiplications for 144.

The algorithm of winograd.py, derived by its weight: with the inputs d of a tile and the gradients g
of its outputs the gradient of the window is ``G' [sum over tiles of (A g A') * (B' d B)] G``. A
kernel brings the gradients of all tiles to the interpolation points, ``winograd_inputs`` the
inputs; a third sums their products, rows of channels against columns of channels, and keeps those
of all points in its core's cache until it has made 9 numbers of each 36.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import (
    Blocking,
    ceil_div,
    choose_strip,
    inner_loop,
    prefetching,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile
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
from ocl_inductor.templates.winograd.winograd_points import (
    ImageParams,
    transform_bytes,
    transform_launch,
    transform_tile,
)

#: Products at all points stay in a second-level cache, and a part's columns of one point as well:
#: their shares.
_SHARE, _PART_SHARE = 3 / 8, 1 / 8
#: Additions and multiplications for a vector of one tile's gradients.
_GRADIENT_FLOPS = 10 * 14


@dataclass(frozen=True, slots=True)
class PointsPartition:
    """How a sum over tiles is shared out: the register tile, and the ``parts`` of the result, each
    a sum over ``tiles_per_part``."""

    tile: Blocking
    parts: int
    tiles_per_part: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsGradientParams(TemplateParams):
    """All static; ``acc`` is "float". ``rows``, ``columns``: channels of the output and of the
    input, multiples of ``lanes``. ``parts``, ``tiles_per_part``: see :class:`PointsPartition`."""

    tiles: int
    rows: int
    columns: int
    parts: int
    tiles_per_part: int
    tile: Blocking


def choose_partition(device: DeviceInfo, tiles: int, rows: int, columns: int) -> PointsPartition:
    """For gradients of ``rows`` x ``columns`` weights."""
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
    tile = replace(strip, mb=ceil_div(row_tiles, chunks))
    return PointsPartition(tile, ceil_div(tiles, each), each)


def _gradients_space(p: ImageParams) -> tuple[Size, ...]:
    return (POINTS**2, tiles_of(p.n, p.out_sizes), p.channels)


def _gradients_flops(p: ImageParams) -> Size:
    return prod((_GRADIENT_FLOPS, tiles_of(p.n, p.out_sizes), p.channels))


def _gradients_reference(g: np.ndarray) -> np.ndarray:
    """``g`` (n, c, y, x) as (36, tiles, c) in float64."""
    edges = [(0, -s % OUTPUTS) for s in g.shape[2:]]
    whole = np.pad(g.astype(np.float64), [(0, 0), (0, 0), *edges])
    tiles = sliding_window_view(whole, (OUTPUTS, OUTPUTS), axis=(2, 3))
    tiles = tiles[:, :, ::OUTPUTS, ::OUTPUTS]
    matrix = output_coefficients()
    found = np.einsum("ip,ncyxij,jq->pqnyxc", matrix, tiles, matrix)
    return found.reshape(POINTS**2, -1, g.shape[1])


WINOGRAD_GRADIENTS: TemplateSpec[ImageParams] = TemplateSpec(
    name="winograd_gradients",
    params=ImageParams,
    file="winograd/winograd_gradients.cl.jinja",
    out_space=_gradients_space,
    tile=transform_tile,
    launch=transform_launch,
    flops=_gradients_flops,
    bytes=lambda p: transform_bytes(p, p.out_sizes),
    reference=_gradients_reference,
)


def _out_space(p: PointsGradientParams) -> tuple[Size, ...]:
    return (p.parts, p.rows, 3, 3, p.columns)


def _tile(device: DeviceInfo, profile: Profile, p: PointsGradientParams) -> dict[str, object]:
    tile, nr = p.tile, p.tile.nr
    # The last rows of an item may move up by less than a register tile.
    rows = (tile.mb + 1) * tile.mr
    return {
        "W": tile.lanes,
        "NV": tile.nv,
        "NR": nr,
        "MR": tile.mr,
        "ROWS": tile.mb * tile.mr,
        "chain": MAX_CHAIN,
        # An odd number of cache lines: what a transform reads is spread over all sets.
        "products_step": rows * tile.nv | 1,
        **weight_constants(),
        **prefetching(device, nr, p.acc, p.tiles_per_part),
        **inner_loop(device),
    }


def _launch(p: PointsGradientParams, tile: Tile) -> LaunchGrid:
    panels, chunks = ceil_div(p.columns, tile["NR"]), ceil_div(p.rows, tile["ROWS"])
    return LaunchGrid((panels, chunks, p.parts), (1, 1, 1))


def _flops(p: PointsGradientParams) -> Size:
    """Of the products: how many pixels the tiles hold is not known here."""
    return prod((2, POINTS**2, p.tiles, p.rows, p.columns))


def _bytes(p: PointsGradientParams) -> Size:
    read = POINTS**2 * p.tiles * (p.rows + p.columns)
    return 4 * (read + 9 * p.parts * p.rows * p.columns)


def _reference(g: np.ndarray, d: np.ndarray) -> np.ndarray:
    """``g`` (36, tiles, rows) and ``d`` (36, tiles, columns) as (rows, 3, 3, columns)."""
    products = np.einsum("ptm,ptn->pmn", g.astype(np.float64), d.astype(np.float64))
    matrix = np.array(weight_coefficients())
    points = products.reshape(POINTS, POINTS, *products.shape[1:])
    return np.einsum("pi,pqmn,qj->mijn", matrix, points, matrix)


WINOGRAD_WEIGHT_GRADIENT: TemplateSpec[PointsGradientParams] = TemplateSpec(
    name="winograd_weight_gradient",
    params=PointsGradientParams,
    file="winograd/winograd_weight_gradient.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
