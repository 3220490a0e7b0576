"""When and how a convolution goes through Winograd's algorithm (templates/winograd/winograd.py).

With few weights, one kernel: a work-item takes some tiles, which stay in its core's cache, and
reads all weights at the interpolation points. With many weights and few tiles, two: all tiles are
brought to the points, and the next kernel brings each weight there as it uses it
(winograd_products.py). With many of both, three: a matrix product for each point between
the two ends (templates/winograd/winograd_points.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import Expr, compare, const, index_value, op, where
from ocl_inductor.ir.index import Size, contiguous_strides, is_static, loop_vars, prod
from ocl_inductor.lowering.conv.geometry import Geometry
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, permute, reshape, strided_view
from ocl_inductor.lowering.matmul.product_operands import pack_panels
from ocl_inductor.templates.blocking import ceil_div, choose_blocking, lanes_of
from ocl_inductor.templates.gemm.gemm import GEMM, GemmParams
from ocl_inductor.templates.winograd.winograd import (
    MAX_CHAIN,
    POINTS,
    WINOGRAD,
    WinogradParams,
    register_tile,
    tiles_of,
    weight_coefficients,
)
from ocl_inductor.templates.winograd.winograd_costs import bytes_in_cache, winograd_costs
from ocl_inductor.templates.winograd.winograd_points import (
    WINOGRAD_INPUTS,
    WINOGRAD_OUTPUTS,
    InputsParams,
    TransformParams,
)
from ocl_inductor.templates.winograd.winograd_products import (
    WINOGRAD_PRODUCTS,
    PointsProductsParams,
    choose_tile,
    weight_order,
)

_CHANNELS_LAST = (0, 2, 3, 1)


def allowed(
    ctx: LoweringContext, dtype: torch.dtype, channels: Sequence[object], sizes: Sequence[object]
) -> bool:
    """Whether the algorithm may be used, and its kernels can, for these numbers of channels.

    In float32 only, which half types are computed in as well: the algorithm loses some digits,
    which a user of float64 needs. ``sizes``: all of both operands'.
    """
    lanes, least = lanes_of(ctx.device, "float"), winograd_costs(ctx.device).min_channels
    return (
        ctx.settings.winograd
        and ctx.device.profile == "vector"
        and lanes >= 8
        and dtype is torch.float32
        and all(map(is_static, (*channels, *sizes)))  # type: ignore[arg-type]
        and all(int(c) % lanes == 0 and int(c) >= least for c in channels)  # type: ignore[call-overload]
    )


def declines(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, out_channels: int
) -> Declined | None:
    """Why a convolution does not take the algorithm."""
    plain = (g.kernel, g.stride, g.dilation) == ((3, 3), (1, 1), (1, 1))
    if not plain or g.groups != 1 or g.transposed:
        return Declined("only plain 3x3 windows without stride, dilation and groups do")
    channels, sizes = int(x.size[1]), g.sizes
    if not allowed(ctx, x.dtype, (channels, out_channels), (*x.size, *sizes)):
        return Declined(_not_allowed(ctx, x.dtype, channels, out_channels))
    pixels = ctx.hint(prod((x.size[0], *sizes)))
    tiles = ctx.hint(tiles_of(x.size[0], tuple(sizes)))  # type: ignore[arg-type]
    kept, costs = ctx.is_kept(weight), winograd_costs(ctx.device)
    match _kernels(ctx.device, kept, tiles, channels, out_channels):
        case 1:
            mr, _ = register_tile(ctx.device)
            cost = ceil_div(tiles, mr) * mr * costs.tile + costs.read
            cost += 0 if kept else costs.transform
        case 2:
            cost = tiles * costs.tile + costs.transform_in_kernel
        case _:  # kept, always
            cost = tiles * costs.tile + costs.read
    if cost < 9 * pixels + (0 if kept else costs.pack):
        return None
    return Declined(f"a direct sum is faster for {pixels} pixels of {channels} channels")


def _not_allowed(ctx: LoweringContext, dtype: torch.dtype, channels: int, out_channels: int) -> str:
    if not ctx.settings.winograd:
        return "the option winograd is off"
    if ctx.device.profile != "vector" or lanes_of(ctx.device, "float") < 8:
        return "its kernels are for CPUs with vectors of 8 lanes or more"
    if dtype is not torch.float32:
        return f"it loses digits that {dtype} is asked for"
    return f"{channels} channels to {out_channels} do not fill vectors, or a size is not known"


def _kernels(device: DeviceInfo, kept: bool, tiles: int, channels: int, out_channels: int) -> int:
    """How many kernels it takes, where ``kept`` weights do not change between calls."""
    costs, cached = winograd_costs(device), bytes_in_cache(device)
    weights = 4 * POINTS**2 * channels * out_channels / cached
    passing = 4 * POINTS**2 * tiles * (channels + out_channels)
    if not kept:
        inputs = 4 * POINTS**2 * tiles * channels
        pays = tiles <= costs.max_tiles_anew or weights > costs.many_weights
        return 2 if pays and inputs <= costs.max_bytes else 1
    if weights <= costs.some_weights:
        return 1
    if tiles <= costs.max_tiles_kept:
        return 2
    most = costs.max_bytes if weights > costs.many_weights else cached
    return 3 if passing <= most else 1


def winograd(
    ctx: LoweringContext,
    x: Value,
    weight: Value,
    padding: tuple[int, ...],
    sizes: tuple[Size, ...],
) -> Value:
    """``x`` (n, c, y, x) with adjacent channels, ``weight`` (oc, c, 3, 3)."""
    view = strided_view(x)
    assert view is not None
    channels = int(x.size[1])
    tiles = ctx.hint(tiles_of(x.size[0], sizes))
    params = WinogradParams(
        acc="float",
        n=x.size[0], in_sizes=tuple(x.size[2:]), out_sizes=sizes,
        channels=channels, out_channels=int(weight.size[0]),
        padding=padding,
        x_offset=view.offset,
        x_strides=(view.stride[0], view.stride[2], view.stride[3]),
        lanes=lanes_of(ctx.device, "float"),
        tiles_hint=tiles,
    )  # fmt: skip
    match _kernels(ctx.device, ctx.is_kept(weight), tiles, channels, int(weight.size[0])):
        case 1:
            return _tiles_in_cache(ctx, x, weight, params)
        case 2:
            return _weights_in_kernel(ctx, x, weight, params)
        case _:
            return _product_of_each_point(ctx, x, weight, params)


def _tiles_in_cache(ctx: LoweringContext, x: Value, weight: Value, p: WinogradParams) -> Value:
    """One kernel: some tiles stay in a core's cache, while it reads all weights."""
    _, nv = register_tile(ctx.device)
    packed = _packed(ctx, weight, nv * p.lanes)
    size = (p.n, p.out_channels, *p.out_sizes)
    return ctx.template(WINOGRAD, x.dtype, size, _CHANNELS_LAST, [x, packed], p)


def _inputs(p: WinogradParams, block: int) -> InputsParams:
    """Of the kernel that brings the inputs to the points, ``block`` channels together."""
    return InputsParams(
        acc=p.acc, n=p.n, in_sizes=p.in_sizes, out_sizes=p.out_sizes, channels=p.channels,
        padding=p.padding, x_offset=p.x_offset, x_strides=p.x_strides,
        lanes=p.lanes, tiles_hint=p.tiles_hint, block=block,
    )  # fmt: skip


def _product_of_each_point(
    ctx: LoweringContext, x: Value, weight: Value, p: WinogradParams
) -> Value:
    """Three kernels: all tiles at the points, a matrix product for each point, and the outputs."""
    channels, oc, points = p.channels, p.out_channels, POINTS**2
    tiles = tiles_of(p.n, p.out_sizes)
    lead = (1, points, tiles, channels)
    inputs = ctx.template(
        WINOGRAD_INPUTS, x.dtype, lead, (0, 1, 2, 3), [x], _inputs(p, block=channels)
    )
    inputs = reshape(inputs, (points, tiles, channels))
    weight_bytes = channels * oc * 4
    product = GemmParams(
        acc="float",
        m=tiles, n=oc, k=channels,
        batch=(points,), out_batch=(points,), out_order=(0, 1),
        a_layout="strided", a_offset=0, a_strides=contiguous_strides(inputs.size),
        b_layout="panels", b_offset=0, b_strides=(1,),
        max_chain=MAX_CHAIN,
        tile=choose_blocking(ctx.device, "float", p.tiles_hint, oc, points, weight_bytes),
    )  # fmt: skip
    product = ctx.tuned(GEMM, product)
    packed = _packed(ctx, weight, product.blocking.nr)
    product = replace(product, b_strides=(int(prod(packed.size[1:])),))
    size = (points, tiles, oc)
    products = ctx.template(GEMM, x.dtype, size, (0, 1, 2), [inputs, packed], product)
    outputs = TransformParams(
        acc=p.acc, n=p.n, out_sizes=p.out_sizes, channels=oc, lanes=p.lanes,
        tiles_hint=p.tiles_hint,
    )  # fmt: skip
    image = (p.n, oc, *p.out_sizes)
    return ctx.template(WINOGRAD_OUTPUTS, x.dtype, image, _CHANNELS_LAST, [products], outputs)


def _weights_in_kernel(ctx: LoweringContext, x: Value, weight: Value, p: WinogradParams) -> Value:
    """Two kernels: the input transform, and products that transform the weights as they go."""
    channels, oc = p.channels, p.out_channels
    tile = choose_tile(ctx.device, p.tiles_hint, channels, oc)
    block = tile.block
    tiles = tiles_of(p.n, p.out_sizes)
    size = (channels // block, POINTS**2, tiles, block)
    inputs = ctx.template(
        WINOGRAD_INPUTS, x.dtype, size, (0, 1, 2, 3), [x], _inputs(p, block=block)
    )
    view = strided_view(weight)
    known = view is not None and all(map(is_static, (view.offset, *view.stride)))
    if view is None or not known or weight_order(view.stride) is None:  # type: ignore[arg-type]
        weight = ctx.pointwise(weight, (0, 1, 2, 3))
        view = strided_view(weight)
    assert view is not None
    products = PointsProductsParams(
        acc=p.acc, n=p.n, out_sizes=p.out_sizes, channels=channels, out_channels=oc,
        w_offset=view.offset, w_strides=tuple(int(s) for s in view.stride), tile=tile,
    )  # fmt: skip
    image = (p.n, oc, *p.out_sizes)
    operands = [inputs, weight]
    return ctx.template(WINOGRAD_PRODUCTS, x.dtype, image, _CHANNELS_LAST, operands, products)


def _packed(ctx: LoweringContext, weight: Value, nr: int) -> Value:
    """The weight at the points, in panels of output channels: [point][panel][channel][nr]."""
    # Packed first: the transform reads each weight 36 times, a run at a time, which stays in the
    # first-level cache. (A training step transforms all weights anew.)
    near = pack_panels(ctx, permute(weight, (2, 3, 1, 0)), nr)
    run = lanes_of(ctx.device, "float") * nr
    runs = reshape(near, (3, 3, int(prod(near.size[2:])) // run, run))
    return ctx.pointwise(_transformed(runs), (0, 1, 2), (1, 0, 2))


def _transformed(weight: Value) -> Value:
    """G w G' for each pair of channels: from (3, 3, *channels) to (36, *channels)."""
    channels = weight.size[2:]
    matrix = weight_coefficients()
    point, *rest = loop_vars(1 + len(channels))
    row = index_value(FloorDiv(point, POINTS))
    column = index_value(point - POINTS * FloorDiv(point, POINTS))
    total: Expr | None = None
    for i in range(3):
        for j in range(3):
            scale = op("mul", _entry(matrix, row, i), _entry(matrix, column, j))
            term = op("mul", scale, weight.at([sympy.Integer(i), sympy.Integer(j), *rest]))
            total = term if total is None else op("add", total, term)
    assert total is not None
    return Value((POINTS * POINTS, *channels), weight.dtype, total)


def _entry(matrix: list[list[float]], row: Expr, column: int) -> Expr:
    """``matrix[row][column]`` for a row that is only known in the kernel."""
    entry = const(matrix[-1][column], torch.float32)
    for number, values in enumerate(matrix[:-1]):
        here = compare("eq", row, const(number, torch.int64))
        entry = where(here, const(values[column], torch.float32), entry)
    return entry
