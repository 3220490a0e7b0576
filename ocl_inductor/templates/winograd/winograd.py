"""Convolution with 3x3 windows by F(4x4, 3x3): 36 multiplications for 16 pixels instead of 144.

S. Winograd, "Arithmetic Complexity of Computations" (SIAM, 1980); for convolutional networks A.
Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016). A tile of 4x4
outputs is ``A' [(G w G') * (B' d B)] A`` for its 6x6 inputs d and the window w.

The interpolation points are 0, +-sqrt(1/2), +-sqrt(2) and infinity. Being reciprocal in pairs they
keep the entries of the matrices small (at most 2.83), and with them the rounding errors; the usual
points 0, +-1, +-2 have entries up to 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import (
    ceil_div,
    inner_loop,
    numbers_of_a_line,
    prefetching,
    size_ceil_div,
)
from ocl_inductor.templates.conv.conv import conv_reference
from ocl_inductor.templates.spec import Hint, LaunchGrid, Profile, TemplateSpec, Tile, tunable
from ocl_inductor.templates.trial import Trial, packed, strided, tolerance_of_sum, uniform

A, B = math.sqrt(0.5), math.sqrt(2.0)
FINITE = (0.0, A, -A, B, -B)
OUTPUTS, POINTS = 4, 6
#: Transformed inputs of a work-item stay below this share of a second-level cache.
_MAX_INPUT = 5 / 8
_MAX_TILES = 24
#: Longest chain of additions over channels. The output transform magnifies its rounding errors five
#: times: with 256 channels they are 1.4e-6 of the results' rms without a limit, 7.6e-7 with 64,
#: 5.9e-7 with 32, 5.3e-7 with 16. 32 costs 0 to 5 % of the time.
MAX_CHAIN = 32
_ITEMS_PER_UNIT = 4
#: Vectors of output channels in a panel of the weight.
_PANEL_VECTORS = 2


def _tile_counts(device: DeviceInfo, p: WinogradParams, hint: Hint) -> Sequence[int]:
    """Tiles to a work-item that are worth trying; 0, the default, is chosen by the cache."""
    mr, usual = register_tile(device)[0], _usual_tiles(device, p)
    most = max(_MAX_TILES, mr)
    return (0, *(n for n in range(mr, most + 1, mr) if n != usual and n < p.tiles_hint + mr))


@dataclass(frozen=True, slots=True, kw_only=True)
class WinogradParams(TemplateParams):
    """Sizes and strides in elements; ``n`` and spatial sizes may be symbolic; ``acc`` is "float".

    ``n``, ``in_sizes``, ``out_sizes``; ``channels``, ``out_channels``: multiples of ``lanes``;
    ``padding``; ``x_offset``, ``x_strides``: (n, y, x), the channel's is 1. The weight lies as
    [6*6][panel][channel][nv*lanes] after :func:`weight_coefficients`, with zeros at the end.
    ``tiles_hint``: typical number of tiles. ``tiles``: to a work-item, a multiple of a register
    tile's rows; 0 for as many as the cache has room for.
    """

    n: Size
    in_sizes: tuple[Size, ...]
    out_sizes: tuple[Size, ...]
    channels: int
    out_channels: int
    padding: tuple[int, ...]
    x_offset: Size
    x_strides: tuple[Size, ...]
    tiles_hint: int
    lanes: int
    tiles: int = field(default=0, metadata=tunable(_tile_counts))


def weight_coefficients() -> list[list[float]]:
    """G: (6, 3). Row p is (1, p, p^2) over the product of p's distances to the other points."""
    rows = []
    for p in FINITE:
        norm = math.prod(p - other for other in FINITE if other != p)
        rows.append([1 / norm, p / norm, p * p / norm])
    return [*rows, [0.0, 0.0, 1.0]]


def weight_constants() -> dict[str, list[list[str]]]:
    """G as C text, for the transforms of weights in ``winograd_tile.cl.jinja``."""
    return {"G": [[repr(x) for x in row] for row in weight_coefficients()]}


def input_coefficients() -> np.ndarray:
    """B': (6, 6). Row p has the polynomial that is 0 at the other points, row infinity at all."""
    rows = [np.poly([other for other in FINITE if other != p])[::-1] for p in FINITE]
    return np.array([*([*row, 0.0] for row in rows), np.poly(FINITE)[::-1]])


def output_coefficients() -> np.ndarray:
    """A': (4, 6). Row i has the points to the power of i."""
    rows = [[p**i for p in FINITE] + [float(i == OUTPUTS - 1)] for i in range(OUTPUTS)]
    return np.array(rows)


def powers() -> dict[str, str]:
    """Constants of the transforms in ``winograd_tile.cl.jinja``."""
    return {"A": repr(A), "B": repr(B), "A3": repr(A**3), "B3": repr(B**3)}


def register_tile(device: DeviceInfo) -> tuple[int, int]:
    """Rows (tiles) and vectors (output channels) of a product held in registers."""
    return (12 if device.vector_width >= 16 else 6), _PANEL_VECTORS


def _out_space(p: WinogradParams) -> tuple[Size, ...]:
    return (p.n, *p.out_sizes, p.out_channels)


def _usual_tiles(device: DeviceInfo, p: WinogradParams) -> int:
    """Tiles to a work-item: fewer where there are few of them; then the panels are shared out."""
    mr, _ = register_tile(device)
    wanted = _ITEMS_PER_UNIT * device.compute_units
    tiles = min(int(_MAX_INPUT * device.caches.l2) // (POINTS**2 * p.channels * 4), _MAX_TILES)
    return max(min(tiles, ceil_div(p.tiles_hint, wanted)) // mr, 1) * mr


def _tile(device: DeviceInfo, profile: Profile, p: WinogradParams) -> dict[str, object]:
    mr, nv = register_tile(device)
    nr = nv * p.lanes
    panels = ceil_div(p.out_channels, nr)
    tiles = p.tiles or _usual_tiles(device, p)
    groups = ceil_div(p.tiles_hint, tiles)
    parts = min(max(device.compute_units // groups, 1), panels)
    line = numbers_of_a_line(device, 4)
    return {
        "channel_block": MAX_CHAIN,
        "W": p.lanes,
        "NV": nv,
        "NR": nr,
        "MR": mr,
        "T": tiles,
        # Odd numbers of cache lines: what a transform writes or reads is spread over all sets.
        "inputs_step": (tiles * p.channels // line | 1) * line,
        "products_step": tiles * nv | 1,
        "panels": panels,
        "PANELS": ceil_div(panels, parts),
        **powers(),
        **inner_loop(device),
        **prefetching(device, nr, p.acc, p.channels),
    }


def tiles_of(n: Size, sizes: tuple[Size, ...]) -> Size:
    """Tiles of 4x4 outputs."""
    return prod((n, *(size_ceil_div(s, OUTPUTS) for s in sizes)))


def _launch(p: WinogradParams, tile: Tile) -> LaunchGrid:
    tiles = tiles_of(p.n, p.out_sizes)
    groups = size_ceil_div(tiles, tile["T"])
    return LaunchGrid((ceil_div(tile["panels"], tile["PANELS"]), groups, 1), (1, 1, 1))


def _flops(p: WinogradParams) -> Size:
    """Of the definition, not of the algorithm: what the speed of convolutions is counted in."""
    return prod((2 * 9, p.n, *p.out_sizes, p.channels, p.out_channels))


def _bytes(p: WinogradParams) -> Size:
    inputs = prod((p.n, *p.in_sizes, p.channels))
    outputs = prod((p.n, *p.out_sizes, p.out_channels))
    return 4 * (inputs + outputs + POINTS**2 * p.channels * p.out_channels)


def _reference(x: np.ndarray, w: np.ndarray, padding: tuple[int, int]) -> np.ndarray:
    return conv_reference(x, w, (1, 1), padding, (1, 1), 1)


def _trial(p: WinogradParams, random: np.random.Generator) -> Trial[WinogradParams]:
    lying, x = strided(random, p.x_offset, (p.n, *p.in_sizes, p.channels), (*p.x_strides, 1), p.acc)
    shape = (p.out_channels, p.channels, 3, 3)
    weight = uniform(random, math.prod(shape), p.acc).reshape(shape)
    g = np.array(weight_coefficients())
    points = np.einsum("ai,ocij,bj->abco", g, weight, g).reshape(POINTS**2, *shape[1::-1])
    padding = (int(p.padding[0]), int(p.padding[1]))
    expected = np.moveaxis(_reference(np.moveaxis(x, -1, 1), weight, padding), 1, -1)
    # The transforms magnify rounding errors.
    tolerance = 8 * tolerance_of_sum(p.acc, 9 * p.channels)
    return Trial(p, (lying, packed(points, _PANEL_VECTORS * p.lanes)), expected, tolerance)


WINOGRAD: TemplateSpec[WinogradParams] = TemplateSpec(
    name="winograd",
    params=WinogradParams,
    file="winograd/winograd.cl.jinja",
    out_space=_out_space,
    tile=_tile,
    launch=_launch,
    flops=_flops,
    bytes=_bytes,
    reference=_reference,
    trial=_trial,
)
