"""When and how a convolution, and its weight's gradient, go through a GPU's matrix instructions
(templates/conv/mma_conv.py, templates/conv/mma_weight_gradient.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

import torch

from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.lowering.conv.direct import channels_adjacent, zero_padded
from ocl_inductor.lowering.conv.dot_conv import with_channels
from ocl_inductor.lowering.conv.geometry import (
    Convolution,
    Geometry,
    WeightGradient,
    channels_last,
)
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import (
    StridedView,
    Value,
    permute,
    reshape,
    strided_view,
)
from ocl_inductor.lowering.matmul.mma_product import HALVES, RUN, takes_halves
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.conv.mma_conv import MMA_CONV, MmaConvParams
from ocl_inductor.templates.conv.mma_weight_gradient import (
    MMA_WEIGHT_GRADIENT,
    MmaWeightGradientParams,
)
from ocl_inductor.templates.gemm.mma_gemm import Half
from ocl_inductor.templates.mma_tiles import DEPTH, MmaTile, MmaWork, choose_mma_tile

#: Output channels from which a convolution pays for a tile's columns.
_MIN_CHANNELS = 9
#: Channels that are filled up with zeros become at most so many times as many: an image's three
#: become eight.
_MOST_PADDING = 3
#: Pixels of a part that has them all.
_MOST_PIXELS = 1 << 30


def _runs_of_channels(ctx: LoweringContext, x: Value) -> tuple[Value, StridedView] | None:
    """``x`` in memory with adjacent channels in whole runs; None where they are not."""
    x = channels_adjacent(ctx, x)
    view = strided_view(x)
    assert view is not None
    others = (view.offset, view.stride[0], *view.stride[2:])
    whole = all(is_static(s) and int(s) % RUN == 0 for s in others)
    return (x, view) if whole else None


class _MmaConvGiven(TypedDict):
    """The parameters that both templates share."""

    acc: str
    half: Half
    n: Size
    in_sizes: tuple[Size, ...]
    out_sizes: tuple[Size, ...]
    channels: int
    oc: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    x_offset: Size
    x_strides: tuple[Size, ...]
    tile: MmaTile


def _given(
    x: Value, view: StridedView, g: Geometry, result_size: Sequence[Size], tile: MmaTile
) -> _MmaConvGiven:
    """What both templates want to know: of ``x``, which ``view`` is of, and the result."""
    return {
        "acc": "float",
        "half": HALVES[x.dtype],
        "n": result_size[0],
        "in_sizes": tuple(int(s) for s in x.size[2:]),
        "out_sizes": tuple(int(s) for s in result_size[2:]),
        "channels": int(x.size[1]),
        "oc": int(result_size[1]),
        "kernel": g.kernel,
        "stride": g.stride,
        "padding": g.padding,
        "dilation": g.dilation,
        "x_offset": view.offset,
        "x_strides": (view.stride[0], *view.stride[2:]),
        "tile": tile,
    }


def mma_conv(ctx: LoweringContext, problem: Convolution) -> Value | Declined:
    """The convolution of a half type to float32."""
    x, weight, g, result_size = problem.x, problem.weight, problem.g, problem.size
    if not takes_halves(ctx, x, weight):
        return Declined("the device has no matrix instructions for these dtypes")
    if g.transposed or g.groups > 1:
        return Declined("it is transposed or has groups")
    if not all(is_static(s) for s in (*x.size[1:], *weight.size, *g.sizes)):
        return Declined("its sizes are not known")
    channels, oc = ceil_div(int(x.size[1]), RUN) * RUN, int(result_size[1])
    if int(x.size[1]) * _MOST_PADDING < channels or oc < _MIN_CHANNELS:
        return Declined(f"{x.size[1]} channels to {oc} do not fill its tiles")
    if channels != int(x.size[1]):
        x = zero_padded(ctx, ctx.realize(x), (0,) * g.ndim, channels)
    found = _runs_of_channels(ctx, x)
    if found is None:
        return Declined("pixels do not lie at multiples of 16 bytes")
    x, view = found
    nd = g.ndim
    rows = permute(weight, (0, *range(2, nd + 2), 1))
    packed = ctx.realize(with_channels(rows, channels), range(rows.ndim))
    pixels = ctx.hint(prod((result_size[0], *g.sizes)))
    work = MmaWork(pixels, oc, 1, math.prod(g.kernel) * channels)
    tile, _ = choose_mma_tile(ctx.device, work, most_parts=1)
    params = MmaConvParams(**_given(x, view, g, result_size, tile))
    order, operands = channels_last(nd), [x, packed]
    return ctx.template(MMA_CONV, torch.float32, result_size, order, operands, params)


def mma_weight_gradient(ctx: LoweringContext, problem: WeightGradient) -> Value | Declined:
    """The gradient (oc, c, \\*kernel) of operands of a half type in float32.

    ``coarse`` lies channels-last in memory without gaps.
    """
    grad, x, g = problem.coarse, problem.fine, problem.g
    if not takes_halves(ctx, grad, x):
        return Declined("the device has no matrix instructions for these dtypes")
    if g.transposed or g.groups > 1:
        return Declined("it is transposed or has groups")
    if not all(is_static(s) for s in (*x.size[1:], *grad.size[1:])):
        return Declined("its sizes are not known")
    channels, oc = int(x.size[1]), int(grad.size[1])
    if channels % RUN or oc % RUN:
        return Declined(f"{channels} and {oc} channels are no multiples of {RUN}")
    found = _runs_of_channels(ctx, x)
    if found is None:
        return Declined("pixels do not lie at multiples of 16 bytes")
    x, view = found
    taps = math.prod(g.kernel)
    pixels = ctx.hint(prod((grad.size[0], *grad.size[2:])))
    tile, parts = choose_mma_tile(ctx.device, MmaWork(oc, channels, taps, pixels))
    chunk = ceil_div(ceil_div(pixels, parts), DEPTH) * DEPTH
    if not is_static(grad.size[0]):  # whatever the batch, one part has all of it
        parts, chunk = 1, _MOST_PIXELS
    else:
        parts = ceil_div(pixels, chunk)
    given = _given(x, view, g, grad.size, tile)
    params = MmaWeightGradientParams(**given, parts=parts, chunk=chunk)
    size, order = (parts, taps, oc, channels), (0, 1, 2, 3)
    result = ctx.template(MMA_WEIGHT_GRADIENT, torch.float32, size, order, [grad, x], params)
    return reshape(permute(ctx.reduce(result, [0], "sum"), (1, 2, 0)), (oc, channels, *g.kernel))
