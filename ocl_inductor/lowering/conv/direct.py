"""Convolutions by the conv and depthwise templates: operands as these want them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import const, masked
from ocl_inductor.ir.index import Size, contiguous_strides, loop_vars, prod, same
from ocl_inductor.lowering.conv.geometry import Geometry, channels_last
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import all_of, full, in_bounds
from ocl_inductor.lowering.core.values import (
    StridedView,
    Value,
    permute,
    reindex,
    reshape,
    strided_view,
)
from ocl_inductor.lowering.matmul.product_operands import accumulator, pack_panels
from ocl_inductor.lowering.matmul.product_template import packs_own_panel
from ocl_inductor.templates.blocking import Blocking, choose_blocking, lanes_of, with_tall_items
from ocl_inductor.templates.conv.conv import CONV, MAX_TABLE_BYTES, ConvParams, parts_of_sum
from ocl_inductor.templates.conv.depthwise import DEPTHWISE, DepthwiseParams
from ocl_inductor.templates.simt_tiles import ProductWork, SimtTile, choose_tile

#: Up to this many channels a padded copy of the input pays: its window rows are contiguous runs.
_MAX_PADDED_CHANNELS = 8


def depthwise_lanes(ctx: LoweringContext, dtype: torch.dtype, channels: int) -> int:
    """Elements of a vector that divides the channels; 0 where short vectors would not pay."""
    if ctx.device.profile != "vector":
        return 0
    lanes = full_lanes = lanes_of(ctx.device, accumulator(dtype))
    while channels % lanes:
        lanes //= 2
    return lanes if 4 * lanes >= full_lanes else 0


def by_depthwise_template(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, lanes: int
) -> Value:
    """One or two spatial dimensions; one is taken as a single row of an image.

    ``x`` may be bfloat16, with a float32 ``weight``.
    """
    channels, nd = int(x.size[1]), g.ndim
    x = channels_adjacent(ctx, x)
    view = strided_view(x)
    assert view is not None
    taps = permute(reshape(weight, (channels, *g.kernel)), (*range(1, nd + 1), 0))
    taps = ctx.realize(taps, range(nd + 1))
    lead = 2 - nd
    stride = [0 if same(s, 1) else t for s, t in zip(view.size, view.stride, strict=True)]
    params = DepthwiseParams(
        acc=accumulator(weight.dtype),
        narrow=x.dtype is not weight.dtype,
        ndim=nd,
        n=x.size[0],
        channels=channels,
        in_sizes=(1,) * lead + tuple(x.size[2:]),
        out_sizes=(1,) * lead + g.sizes,
        kernel=(1,) * lead + g.kernel,
        stride=(1,) * lead + g.stride,
        padding=(0,) * lead + g.padding,
        dilation=(1,) * lead + g.dilation,
        x_offset=view.offset,
        x_strides=(stride[0], *(0,) * lead, *stride[2:]),
        lanes=lanes,
        rows_hint=ctx.hint(prod((x.size[0], *g.sizes[: nd - 1]))),
    )
    size = (x.size[0], channels, *g.sizes)
    return ctx.template(DEPTHWISE, weight.dtype, size, channels_last(nd), [x, taps], params)


def zero_padded(
    ctx: LoweringContext,
    x: Value,
    padding: Sequence[int],
    channels: int | None = None,
    fill: int = 0,
) -> Value:
    """A channels-last copy with ``padding`` zeros on both sides of each spatial dimension, and with
    zeros behind the channels up to so many; or with ``fill`` in their place."""
    size = (
        x.size[0],
        channels or x.size[1],
        *(s + 2 * q for s, q in zip(x.size[2:], padding, strict=True)),
    )
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    where = [v - q for v, q in zip(variables[2:], padding, strict=True)]
    index = [variables[1], *where]
    inside = all_of(in_bounds(w, 0, s, ranges) for w, s in zip(index, x.size[1:], strict=True))
    element = x.at([variables[0], *index])
    if inside is not None:
        element = masked(inside, element, const(fill, x.dtype))
    padded = reindex(Value(size, x.dtype, element), size, list(variables))
    return ctx.pointwise(padded, channels_last(x.ndim - 2))


def channels_adjacent(ctx: LoweringContext, x: Value) -> Value:
    """``x`` in memory with unit stride along channels."""
    view = strided_view(x)
    if view is not None and (same(view.stride[1], 1) or same(view.size[1], 1)):
        return x
    return ctx.realize(x, channels_last(x.ndim - 2))


def by_template(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, result_size: tuple[Size, ...]
) -> Value:
    nd, n, groups = g.ndim, x.size[0], g.groups
    icg = int(x.size[1]) // groups
    ocg = int(result_size[1]) // groups
    # To (group, *kernel, icg, ocg): a matrix of icg x ocg for each tap.
    if g.transposed:
        taps = reshape(weight, (groups, icg, ocg, *g.kernel))
        taps = permute(taps, (0, *range(3, nd + 3), 1, 2))
    else:
        taps = reshape(weight, (groups, ocg, icg, *g.kernel))
        taps = permute(taps, (0, *range(3, nd + 3), 2, 1))
    vector = ctx.device.profile == "vector"
    if vector:
        narrow = groups == 1 and icg <= _MAX_PADDED_CHANNELS and g.dilation[-1] == 1
        if narrow and not g.transposed and any(g.padding):
            x = zero_padded(ctx, x, g.padding)
            g = replace(g, padding=(0,) * nd)
        x = channels_adjacent(ctx, x)
        view = strided_view(x)
        assert view is not None
        contiguous = same(view.stride[-1], icg) or same(view.size[-1], 1)
        if (
            not g.transposed and groups == 1 and g.padding[-1] == 0
            and g.dilation[-1] == 1 and contiguous
        ):  # fmt: skip
            # A row of the window is one run of elements: one tap with more channels.
            run = g.kernel[-1] * icg
            taps = reshape(taps, (1, *g.kernel[:-1], 1, run, ocg))
            g, icg = replace(g, kernel=(*g.kernel[:-1], 1)), run
    else:
        x = ctx.realize(x)
        view = strided_view(x)
        assert view is not None
    stride = [0 if same(s, 1) else t for s, t in zip(view.size, view.stride, strict=True)]
    acc, pixels, count = accumulator(x.dtype), ctx.hint(prod((n, *g.sizes))), math.prod(g.kernel)
    weight_bytes = groups * count * icg * ocg * x.dtype.itemsize
    wanted, tile = 1, None
    if not vector:
        work = ProductWork(acc, pixels, ocg, groups, count * icg, MAX_TABLE_BYTES)
        tile, wanted = choose_tile(ctx.device, work)
    params = ConvParams(
        acc=acc,
        n=n, in_sizes=tuple(x.size[2:]), out_sizes=g.sizes,
        groups=groups, icg=icg, ocg=ocg,
        kernel=g.kernel, stride=g.stride, padding=g.padding, dilation=g.dilation,
        transposed=g.transposed,
        x_offset=view.offset,
        x_strides=(stride[0], *stride[2:], view.stride[1] if not vector else 1),
        tile=tile or choose_blocking(ctx.device, acc, pixels, ocg, groups, weight_bytes),
    )  # fmt: skip
    if vector:
        rows = reshape(taps, (groups, count, icg, ocg))
        tall = with_tall_items(ctx.device, params.blocking, pixels, ocg, groups)
        own = None if g.transposed else _packed_by_items(ctx.device, rows, tall, x.dtype)
        if own is not None:
            offset, strides = own.offset, own.stride
            params = replace(params, w_layout="strided", w_offset=offset, w_strides=strides)
        params = ctx.tuned(CONV, params)
        if own is None:
            # All taps of a panel together: (group, panel, tap, icg, lane).
            rows = pack_panels(ctx, rows, params.blocking.nr, steps=2)
    else:
        params = ctx.tuned(CONV, params)
        assert isinstance(params.tile, SimtTile)
        parts = parts_of_sum(count, icg, params.tile.slab, wanted)
        params = replace(params, parts=parts)
        rows = ctx.realize(taps, range(taps.ndim))
        if parts > 1:
            size, order = (parts, *result_size), (0, *(d + 1 for d in channels_last(nd)))
            found = ctx.template(CONV, x.dtype, size, order, [x, rows], params)
            return ctx.reduce(found, [0], "sum")
    operands = [x, rows]
    if vector and (g.transposed or any(g.padding)):
        operands.append(ctx.pointwise(full((icg,), 0, x.dtype), (0,)))
    return ctx.template(CONV, x.dtype, result_size, channels_last(nd), operands, params)


def _packed_by_items(
    device: DeviceInfo, rows: Value, blocking: Blocking, dtype: torch.dtype
) -> StridedView | None:
    """The weight where it lies, if each work-item is to pack the panel that it needs.

    ``rows`` (groups, taps, icg, ocg).
    """
    view = strided_view(rows)
    if view is None or rows.dtype is not dtype:
        return None
    taps, channels = int(rows.size[1]), int(rows.size[2])
    inner = [(n, s) for n, s in zip(rows.size[1:3], view.stride[1:3], strict=True) if int(n) > 1]
    if not any(map(_dense, (inner, inner[::-1]))):
        return None
    return view if packs_own_panel(device, blocking, taps * channels, dtype) else None


def _dense(dimensions: Sequence[tuple[Size, Size]]) -> bool:
    """Whether (size, stride), outermost first, are one run of elements."""
    strides = contiguous_strides([n for n, _ in dimensions])
    return all(same(s, t) for (_, s), t in zip(dimensions, strides, strict=True))
