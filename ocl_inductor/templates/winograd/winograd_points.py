"""Both ends of Winograd's algorithm where its products are matrix products of their own.

For each of the 36 interpolation points (winograd.py) the inputs are a matrix (tile, channel), which
``winograd_inputs`` writes, and the products a matrix (tile, output channel), of which
``winograd_outputs`` makes images. Between them gemm multiplies all tiles by each weight at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile
from ocl_inductor.templates.winograd.winograd import (
    OUTPUTS,
    POINTS,
    input_coefficients,
    output_coefficients,
    powers,
    tiles_of,
)

_ITEMS_PER_UNIT = 4
#: Additions and multiplications for a vector of one tile.
_INPUT_FLOPS, _OUTPUT_FLOPS = 12 * 22, 10 * 18


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformParams(TemplateParams):
    """What transforms of images share. Sizes and strides in elements; ``acc`` is "float".

    ``n``, ``out_sizes``: of the convolution's result; ``channels``: of the image that is read or
    written, a multiple of ``lanes``. ``tiles_hint``: the number of tiles.
    """

    n: Size
    out_sizes: tuple[Size, ...]
    channels: int
    tiles_hint: int
    lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageParams(TransformParams):
    """``x_offset``, ``x_strides``: (n, y, x) of the image that is read, the channel's is 1."""

    x_offset: Size
    x_strides: tuple[Size, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputsParams(ImageParams):
    """``in_sizes``, ``padding``: of the convolution's input; ``block``: channels that lie together
    in the result, a divisor of ``channels``."""

    in_sizes: tuple[Size, ...]
    padding: tuple[int, ...]
    block: int


def _inputs_space(p: InputsParams) -> tuple[Size, ...]:
    blocks = p.channels // p.block
    return (blocks, POINTS**2, tiles_of(p.n, p.out_sizes), p.block)


def _outputs_space(p: TransformParams) -> tuple[Size, ...]:
    return (p.n, *p.out_sizes, p.channels)


def transform_tile(device: DeviceInfo, profile: Profile, p: TransformParams) -> dict[str, object]:
    items = _ITEMS_PER_UNIT * device.compute_units
    tiles = ceil_div(p.tiles_hint, items)
    # Few tiles: the channels are shared out as well.
    parts = max(items // ceil_div(p.tiles_hint, tiles), 1)
    vectors = p.channels // p.lanes
    channels = ceil_div(vectors, min(parts, vectors)) * p.lanes
    return {"W": p.lanes, "T": tiles, "CHANNELS": channels, **powers()}


def transform_launch(p: TransformParams, tile: Tile) -> LaunchGrid:
    groups = size_ceil_div(tiles_of(p.n, p.out_sizes), tile["T"])
    return LaunchGrid((ceil_div(p.channels, tile["CHANNELS"]), groups, 1), (1, 1, 1))


def _flops(p: TransformParams, of_a_vector: int) -> Size:
    return prod((of_a_vector, tiles_of(p.n, p.out_sizes), p.channels))


def transform_bytes(p: TransformParams, image: tuple[Size, ...]) -> Size:
    """Of a transform of ``image`` (spatial sizes) from or to the points."""
    pixels = prod((p.n, *image))
    points = prod((POINTS**2, tiles_of(p.n, p.out_sizes)))
    return 4 * (pixels + points) * p.channels


def _inputs_reference(
    x: np.ndarray, padding: tuple[int, int], sizes: tuple[int, int]
) -> np.ndarray:
    """``x`` (n, c, y, x) as (36, tiles, c) in float64; ``sizes``: of the output image."""
    down, across = (ceil_div(s, OUTPUTS) for s in sizes)
    # Zeros around, up to whole tiles.
    rows, columns = (n * OUTPUTS + POINTS - OUTPUTS for n in (down, across))
    padded = np.zeros((*x.shape[:2], rows + x.shape[2], columns + x.shape[3]))
    top, left = padding
    padded[:, :, top : top + x.shape[2], left : left + x.shape[3]] = x
    windows = sliding_window_view(padded, (POINTS, POINTS), axis=(2, 3))
    tiles = windows[:, :, : OUTPUTS * down : OUTPUTS, : OUTPUTS * across : OUTPUTS]
    matrix = input_coefficients()
    found = np.einsum("pi,ncyxij,qj->pqnyxc", matrix, tiles, matrix)
    return found.reshape(POINTS**2, -1, x.shape[1])


def outputs_of_products(m: np.ndarray, n: int, sizes: tuple[int, int]) -> np.ndarray:
    """``m`` (36, tiles, c) as an image (n, c, \\*sizes) in float64."""
    down, across = (ceil_div(s, OUTPUTS) for s in sizes)
    matrix = output_coefficients()
    points = m.astype(np.float64).reshape(POINTS, POINTS, n, down, across, -1)
    found = np.einsum("ip,pqnyxc,jq->ncyixj", matrix, points, matrix)
    image = found.reshape(n, -1, down * OUTPUTS, across * OUTPUTS)
    return image[:, :, : sizes[0], : sizes[1]]


WINOGRAD_INPUTS: TemplateSpec[InputsParams] = TemplateSpec(
    name="winograd_inputs",
    params=InputsParams,
    file="winograd/winograd_inputs.cl.jinja",
    out_space=_inputs_space,
    tile=transform_tile,
    launch=transform_launch,
    flops=lambda p: _flops(p, _INPUT_FLOPS),
    bytes=lambda p: transform_bytes(p, p.in_sizes),
    reference=_inputs_reference,
)

WINOGRAD_OUTPUTS: TemplateSpec[TransformParams] = TemplateSpec(
    name="winograd_outputs",
    params=TransformParams,
    file="winograd/winograd_outputs.cl.jinja",
    out_space=_outputs_space,
    tile=transform_tile,
    launch=transform_launch,
    flops=lambda p: _flops(p, _OUTPUT_FLOPS),
    bytes=lambda p: transform_bytes(p, p.out_sizes),
    reference=outputs_of_products,
)
