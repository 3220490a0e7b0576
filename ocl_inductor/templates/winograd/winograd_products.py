"""Winograd's algorithm with weights that come to its points in the kernel that uses them.

``winograd_inputs`` (winograd_points.py) has brought all tiles to the interpolation points. A
work-item takes some of them and a panel of output channels, holds the products of all 36 points in
its core's cache, and makes images of them. It transforms the weights of a block of channels at a
time, from where they lie: that costs it as much as a few more tiles, and memory holds and passes 9
numbers of a weight instead of 36.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import (
    ceil_div,
    inner_loop,
    lanes_of,
    numbers_of_a_line,
    size_ceil_div,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile
from ocl_inductor.templates.tile_tables import tile_table
from ocl_inductor.templates.winograd.winograd import (
    MAX_CHAIN,
    POINTS,
    powers,
    register_tile,
    tiles_of,
    weight_coefficients,
    weight_constants,
)
from ocl_inductor.templates.winograd.winograd_points import outputs_of_products

#: Products at all points, and a block of weights, stay in a second-level cache: its share.
_SHARE = 5 / 8


@dataclass(frozen=True, slots=True)
class PointsTile:
    """A register tile of ``mr`` tiles by ``nv`` vectors of ``lanes`` output channels.

    ``tiles_per_item``: tiles of a work-item, a multiple of ``mr``; ``block``: channels of a block,
    a divisor of ``channels``; it is the longest chain of additions.
    """

    mr: int
    nv: int
    lanes: int
    tiles_per_item: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsProductsParams(TemplateParams):
    """Sizes in elements, all static; ``acc`` is "float".

    ``n``, ``out_sizes``; ``channels``, ``out_channels``: multiples of the tile's ``lanes``.
    ``w_offset``, ``w_strides``: (out channel, channel, row, column) of the weight, in one of the
    orders of :func:`weight_order`.
    """

    n: Size
    out_sizes: tuple[Size, ...]
    channels: int
    out_channels: int
    w_offset: Size
    w_strides: tuple[int, ...]
    tile: PointsTile


def choose_tile(device: DeviceInfo, tiles: int, channels: int, out_channels: int) -> PointsTile:
    """For ``tiles`` tiles."""
    lanes = lanes_of(device, "float")
    rows, nv = register_tile(device)
    block = MAX_CHAIN if channels % MAX_CHAIN == 0 else lanes
    held = int(_SHARE * device.caches.l2) // (4 * POINTS**2 * nv * lanes)
    fitting = max(held - block, rows)
    # Fewer tiles to a work-item where there are few panels, down to a register tile.
    wanted = tile_table(device).items_per_unit * device.compute_units
    busy = min(ceil_div(wanted, ceil_div(out_channels, nv * lanes)), ceil_div(tiles, rows))
    each = ceil_div(tiles, max(ceil_div(tiles, fitting), busy))
    mr = ceil_div(each, ceil_div(each, rows))
    return PointsTile(mr, nv, lanes, ceil_div(each, mr) * mr, block)


def _out_space(p: PointsProductsParams) -> tuple[Size, ...]:
    return (p.n, *p.out_sizes, p.out_channels)


def weight_order(strides: tuple[int, ...]) -> str | None:
    """What is adjacent in memory, as far as the kernel knows it.

    ``"lanes"``: output channels; ``"taps"``: (channel, row, column) are one run; ``"channels"``;
    ``"window"``: the nine taps, in either direction; None for another order.
    """
    lane, channel, row, column = strides
    if lane == 1:
        return "lanes"
    if (channel, row, column) == (9, 3, 1):
        return "taps"
    if channel == 1:
        return "channels"
    return "window" if (row, column) in ((3, 1), (-3, -1)) and lane >= 9 else None


def _prefetched_weights(
    device: DeviceInfo, p: PointsProductsParams, order: str | None
) -> dict[str, object]:
    """A block's weights as equidistant rows of memory: where they begin, and their lines."""
    lane, channel, row, column = p.w_strides
    width, block = p.tile.nv * p.tile.lanes, p.tile.block
    rows, step, run = {
        "lanes": (9 * block, abs(column), width),
        "taps": (width, lane, 9 * block),
        "channels": (9 * width, column, block),
        "window": (block, channel, 9 * width),
    }[order or "taps"]
    line = numbers_of_a_line(device, 4)
    lines = ceil_div(run, line)
    return {
        "prefetched": device.prefetch,
        "LINE": line,
        "first_tap": min(2 * (row + column), 0),
        "row_step": step,
        "lines_of_row": lines,
        "lines_of_point": ceil_div(rows * lines, POINTS**2),
    }


def _tile(device: DeviceInfo, profile: Profile, p: PointsProductsParams) -> dict[str, object]:
    order, tile = weight_order(p.w_strides), p.tile
    return {
        "W": tile.lanes,
        "NV": tile.nv,
        "NR": tile.nv * tile.lanes,
        "MR": tile.mr,
        "T": tile.tiles_per_item,
        "BLOCK": tile.block,
        # Odd numbers of cache lines: what a transform writes or reads is spread over all sets.
        "w_step": tile.block * tile.nv | 1,
        "products_step": tile.tiles_per_item * tile.nv | 1,
        "weight_order": order,
        **_prefetched_weights(device, p, order),
        **inner_loop(device),
        **weight_constants(),
        **powers(),
    }


def _launch(p: PointsProductsParams, tile: Tile) -> LaunchGrid:
    groups = size_ceil_div(tiles_of(p.n, p.out_sizes), tile["T"])
    return LaunchGrid((ceil_div(p.out_channels, tile["NR"]), groups, 1), (1, 1, 1))


def _flops(p: PointsProductsParams) -> Size:
    """Of the definition, not of the algorithm: what the speed of convolutions is counted in."""
    return prod((2 * 9, p.n, *p.out_sizes, p.channels, p.out_channels))


def _bytes(p: PointsProductsParams) -> Size:
    inputs = prod((POINTS**2, tiles_of(p.n, p.out_sizes), p.channels))
    outputs = prod((p.n, *p.out_sizes, p.out_channels))
    return 4 * (inputs + outputs + 9 * p.channels * p.out_channels)


def _reference(d: np.ndarray, w: np.ndarray, n: int, sizes: tuple[int, int]) -> np.ndarray:
    """``d`` (blocks, 36, tiles, block) and ``w`` (oc, c, 3, 3) as an image (n, oc, \\*sizes)."""
    inputs = d.astype(np.float64).transpose(1, 2, 0, 3).reshape(*d.shape[1:3], -1)
    matrix = np.array(weight_coefficients())
    weights = np.einsum("pi,ocij,qj->pqco", matrix, w.astype(np.float64), matrix)
    weights = weights.reshape(POINTS**2, *weights.shape[2:])
    return outputs_of_products(inputs @ weights, n, sizes)


WINOGRAD_PRODUCTS: TemplateSpec[PointsProductsParams] = TemplateSpec(
    name="winograd_products",
    params=PointsProductsParams,
    file="winograd/winograd_products.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
)
