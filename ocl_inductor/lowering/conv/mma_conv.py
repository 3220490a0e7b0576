"""When and how a convolution goes through a GPU's matrix instructions (templates/mma_conv.py)."""

from __future__ import annotations

import math

import torch

from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.lowering.conv.bf16_conv import with_channels
from ocl_inductor.lowering.conv.direct import channels_adjacent, zero_padded
from ocl_inductor.lowering.conv.geometry import Geometry, channels_last
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, permute, strided_view
from ocl_inductor.lowering.matmul.mma_product import HALVES, RUN
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.mma_tiles import MmaWork, choose_mma_tile

#: Output channels from which a convolution pays for a tile's columns.
_MIN_CHANNELS = 9
#: Channels that are filled up with zeros become at most so many times as many: an image's three
#: become eight.
_MOST_PADDING = 3


def mma_conv(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, result_size: tuple[Size, ...]
) -> Value | None:
    """The convolution of a half type to float32, channels-last; None where that does not suit.

    For operands that the device takes (mma_product.takes_halves).
    """
    if g.transposed or g.groups > 1:
        return None
    if not all(is_static(s) for s in (*x.size[1:], *weight.size, *g.sizes)):
        return None
    channels, oc = ceil_div(int(x.size[1]), RUN) * RUN, int(result_size[1])
    if int(x.size[1]) * _MOST_PADDING < channels or oc < _MIN_CHANNELS:
        return None
    if channels == int(x.size[1]):
        x = channels_adjacent(ctx, x)
    else:
        x = zero_padded(ctx, ctx.realize(x), (0,) * g.ndim, channels)
    view = strided_view(x)
    assert view is not None
    strides = (view.stride[0], *view.stride[2:])
    if not all(is_static(s) and int(s) % RUN == 0 for s in (view.offset, *strides)):
        return None
    nd = g.ndim
    rows = permute(weight, (0, *range(2, nd + 2), 1))
    packed = ctx.realize(with_channels(rows, channels), range(rows.ndim))
    sizes = tuple(int(s) for s in g.sizes)
    pixels = ctx.hint(prod((result_size[0], *sizes)))
    work = MmaWork(pixels, oc, 1, math.prod(g.kernel) * channels)
    tile, _ = choose_mma_tile(ctx.device, work, most_parts=1)
    return ctx.template(
        "mma_conv",
        torch.float32,
        result_size,
        channels_last(nd),
        [x, packed],
        acc="float",
        half=HALVES[x.dtype],
        n=result_size[0],
        in_sizes=tuple(int(s) for s in x.size[2:]),
        out_sizes=sizes,
        channels=channels,
        oc=oc,
        kernel=g.kernel,
        stride=g.stride,
        padding=g.padding,
        dilation=g.dilation,
        x_offset=view.offset,
        x_strides=strides,
        **tile.params(),
    )
