"""Gradient of a convolution's weight: a sum over windows, channels against channels.

A template sums it where the operands lie: for each tap, or on GPUs as a product over all windows.
Where none applies it is a matrix product whose right operand (each window as a row) is written
straight into the panels in which the product reads it. Long sums are taken in parts, added up in
the end.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypedDict

from ocl_inductor.ir.index import Size, is_static, loop_vars, prod
from ocl_inductor.lowering.conv.direct import zero_padded
from ocl_inductor.lowering.conv.expressions import window_element
from ocl_inductor.lowering.conv.geometry import Geometry, WeightGradient, channels_last
from ocl_inductor.lowering.conv.mma_conv import mma_weight_gradient
from ocl_inductor.lowering.conv.window_product import multiplies_windows, window_product
from ocl_inductor.lowering.conv_gradients.depthwise_weight_gradient import depthwise_weight_gradient
from ocl_inductor.lowering.conv_gradients.narrow_weight_gradient import narrow_weight_gradient
from ocl_inductor.lowering.conv_gradients.winograd_weight_gradient import (
    suits,
    winograd_weight_gradient,
)
from ocl_inductor.lowering.core.choose import Declined, Implementation, choose
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value
from ocl_inductor.lowering.core.values import Value, permute, reindex, reshape, strided_view
from ocl_inductor.lowering.matmul.matmul import matmul
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.templates.blocking import Blocking, ceil_div, choose_strip
from ocl_inductor.templates.conv.weight_gradient import (
    WEIGHT_GRADIENT,
    WeightGradientParams,
    count_runs,
    run_length,
)

#: Windows that make a product of its own worth its result in memory.
_MIN_PIXELS_APART = 512
#: What a part reads for one tile of rows and columns should stay in the second-level cache, and be
#: this share of it.
_PART = 3 / 8
#: So should what it reads for all tiles where kernels are 1×1, since neighbours read the same
#: lines; but for fewer windows than this the parts' results take as long. 256 channels and 64,
#: 12544 windows, Intel's driver on a Zen 5: 231 GFLOP/s with 1400 windows to a part, 310 with 336.
_WHOLE_PART, _MIN_PART_WINDOWS = 1 / 2, 256
#: Fewer channels than this make lanes, or rows, that the template cannot fill.
_MIN_LANES = 4
#: Rows that the channels of a window's last dimension may make together.
_MAX_JOINED_ROWS = 64


def weight_gradient(ctx: LoweringContext, problem: WeightGradient) -> Value:
    return choose(ctx, "weight gradient", problem, _WEIGHT_GRADIENTS)


def _in_memory(ctx: LoweringContext, p: WeightGradient) -> tuple[Value, Value]:
    """Both operands channels-last in memory, in the dtype of the sums."""
    order = channels_last(p.g.ndim)
    coarse, fine = (ctx.realize(cast_value(v, p.dtype), order) for v in (p.coarse, p.fine))
    return coarse, fine


def _depthwise(ctx: LoweringContext, p: WeightGradient) -> Value | Declined:
    if p.outer != 1 or p.inner != 1 or p.g.groups == 1:
        return Declined("it is not depthwise")
    return depthwise_weight_gradient(ctx, *_in_memory(ctx, p), p.size, p.g)


def _winograd(ctx: LoweringContext, p: WeightGradient) -> Value | Declined:
    if not suits(ctx, p):
        return Declined("only plain 3x3 windows of many channels do, where that takes less time")
    return winograd_weight_gradient(ctx, *_in_memory(ctx, p), p.g)


def _vectors(ctx: LoweringContext, p: WeightGradient) -> Value | Declined:
    if ctx.device.profile != "vector":
        return Declined("it is for CPUs")
    if max(p.inner, p.outer) < _MIN_LANES:
        return Declined(f"{p.inner} and {p.outer} channels in a group make no vectors")
    return _by_template(ctx, *_in_memory(ctx, p), p.size, p.g)


def _windows(ctx: LoweringContext, p: WeightGradient) -> Value | Declined:
    if ctx.device.profile != "simt":
        return Declined("it is for GPUs")
    if not multiplies_windows(p.coarse, p.fine, p.g):
        return Declined("windows are elements as they lie, few, or of sizes that are not known")
    return window_product(ctx, *_in_memory(ctx, p), p.size, p.g)


def _matrix_product(ctx: LoweringContext, p: WeightGradient) -> Value:
    return _by_product(ctx, *_in_memory(ctx, p), p.size, p.g)


#: In the order in which they are tried.
_WEIGHT_GRADIENTS: tuple[Implementation[WeightGradient, Value], ...] = (
    Implementation("mma_weight_gradient", mma_weight_gradient),
    Implementation("narrow_gemm of taps", narrow_weight_gradient),
    Implementation("a sum for each channel", _depthwise),
    Implementation("winograd_weight_gradient", _winograd),
    Implementation("weight_gradient", _vectors),
    Implementation("window_product", _windows),
    Implementation("gemm of written windows", _matrix_product),
)


# -- the template --------------------------------------------------------------------------


def _by_template(
    ctx: LoweringContext, coarse: Value, fine: Value, size: tuple[Size, ...], g: Geometry
) -> Value:
    nd, groups, inner = g.ndim, g.groups, int(size[1])
    outer, kernel = int(size[0]) // groups, g.kernel
    # Lanes along the weight's second dimension leave less to transpose afterwards.
    rows_fine = inner < ctx.device.vector_width // 2 and outer > inner
    rows, columns = (inner, outer) if rows_fine else (outer, inner)
    joined = 1
    if rows_fine and groups == 1 and g.dilation[-1] == 1 and inner * kernel[-1] <= _MAX_JOINED_ROWS:
        # With its edges in memory, a window's last dimension and the channels are one run.
        joined, rows = kernel[-1], inner * kernel[-1]
        if g.padding[-1]:
            fine = zero_padded(ctx, fine, (*(0,) * (nd - 1), g.padding[-1]))
        kernel = (*kernel[:-1], 1)
        g = replace(g, kernel=kernel, padding=(*g.padding[:-1], 0))
    near, far = strided_view(coarse), strided_view(fine)
    assert near is not None and far is not None
    n, windows = coarse.size[0], tuple(coarse.size[2:])
    over = [0, *range(2, nd + 2)]
    operands, views = [coarse, fine], [near, far]
    if rows_fine:
        operands.reverse()
        views.reverse()
    runs = count_runs(n, windows)
    acc = accumulator(coarse.dtype)
    strip = choose_strip(ctx.device, acc, rows, columns)
    fine_lanes = strip.mr if rows_fine else strip.nr
    coarse_lanes = strip.nr if rows_fine else strip.mr
    least = ceil_div(_MIN_PART_WINDOWS, run_length(windows[-1]))
    read = run_length(windows[-1]) * coarse.dtype.itemsize
    whole = read * (g.groups * (inner * math.prod(g.stride) + outer))
    read *= fine_lanes * math.prod(g.stride) + coarse_lanes
    fitting = int(_PART * ctx.device.caches.l2) // read
    if math.prod(kernel) == 1:  # with more taps a tile has more to do with what it reads itself
        fitting = min(fitting, max(int(_WHOLE_PART * ctx.device.caches.l2) // whole, least))
    cut = _cut(ctx, strip, rows, columns, groups, runs, max(fitting, 1))
    params = WeightGradientParams(
        n=n, windows=windows, extents=tuple(fine.size[2:]),
        kernel=kernel, stride=g.stride, padding=g.padding, dilation=g.dilation,
        groups=groups, rows=rows, columns=columns, rows_fine=rows_fine,
        row_offset=views[0].offset, row_strides=tuple(views[0].stride[d] for d in over),
        column_offset=views[1].offset,
        column_strides=tuple(views[1].stride[d] for d in over),
        acc=acc, **cut,
    )  # fmt: skip
    inside = (*kernel, rows) if rows_fine else (rows, *kernel)
    shape = (params.parts, groups, *inside, columns)
    order = tuple(range(len(shape)))
    result = ctx.template(WEIGHT_GRADIENT, coarse.dtype, shape, order, operands, params)
    if params.parts > 1:
        result = reduce_dims(ctx, result, [0], "sum")
    if not rows_fine:
        taps = reshape(result, (groups * outer, *kernel, inner))
        return permute(taps, (0, nd + 1, *range(1, nd + 1)))
    kernel = (*kernel[:-1], kernel[-1] * joined)
    taps = reshape(result, (groups, *kernel, inner, outer))
    taps = permute(taps, (0, nd + 2, nd + 1, *range(1, nd + 1)))
    return reshape(taps, size)


class _Cut(TypedDict):
    """How the sum is shared out."""

    tile: Blocking
    parts: int
    runs_per_part: Size


def _cut(
    ctx: LoweringContext,
    strip: Blocking,
    rows: int,
    columns: int,
    groups: int,
    runs: Size,
    fitting: int,
) -> _Cut:
    """Parts of up to ``fitting`` runs, and work-items, enough to be busy."""
    wanted = 4 * ctx.device.compute_units
    panels, tiles = ceil_div(columns, strip.nr), ceil_div(rows, strip.mr)
    parts: int = 1
    if is_static(runs):
        # One item for all tiles reads the columns once; several parts instead of several items.
        busy = ceil_div(wanted, panels * groups * ceil_div(tiles, 4))
        parts = min(max(ceil_div(int(runs), fitting), busy), int(runs))
        per_part = ceil_div(int(runs), parts)
        parts = ceil_div(int(runs), per_part)
    else:
        per_part = runs
    items = max(ceil_div(wanted, panels * groups * parts), 1)
    mb = max(ceil_div(tiles, min(items, tiles)), 1)
    return {"tile": replace(strip, mb=mb), "parts": parts, "runs_per_part": per_part}


# -- a product over windows ----------------------------------------------------------------


def _by_product(
    ctx: LoweringContext, coarse: Value, fine: Value, size: tuple[Size, ...], g: Geometry
) -> Value:
    nd, groups, inner = g.ndim, g.groups, int(size[1])
    outer = int(size[0]) // groups
    n, pixels = coarse.size[0], tuple(coarse.size[2:])
    # (group, n, *pixel, *tap, channel): each pixel's window.
    lattice = (groups, n, *pixels, *g.kernel, inner)
    v = loop_vars(len(lattice))
    ranges = dict(zip(v, lattice, strict=True))
    element = window_element(
        fine, v[0] * inner + v[-1], v[1], v[2 : 2 + nd], v[2 + nd : -1], g, ranges
    )
    windows = reindex(Value(lattice, fine.dtype, element), lattice, list(v))
    count, columns = prod((n, *pixels)), math.prod(g.kernel) * inner
    parts = _parts(ctx, count, groups, outer, columns)
    each = int(count) // parts if parts > 1 else count
    rows = permute(coarse, channels_last(nd))  # (n, *pixel, channel)
    left = permute(reshape(rows, (parts, each, groups, outer)), (2, 0, 3, 1))
    product = matmul(ctx, left, reshape(windows, (groups, parts, each, columns)))
    if parts > 1:
        product = reduce_dims(ctx, product, [1], "sum")
    taps = reshape(product, (groups * outer, *g.kernel, inner))
    return permute(taps, (0, nd + 1, *range(1, nd + 1)))


def _parts(ctx: LoweringContext, count: Size, groups: int, rows: int, columns: int) -> int:
    """Products that share the sum over ``count`` pixels: enough to keep the device busy.

    One of them is ``rows`` x ``columns`` (times ``groups``). A divisor of ``count``; 1 for symbolic
    sizes.
    """
    simt = ctx.device.profile == "simt"
    if not is_static(count) or (simt and groups == 1):  # such a product cuts its sum itself
        return 1
    tile = (64, 64) if simt else (12, 2 * ctx.device.vector_width)
    busy = groups * -(-rows // tile[0]) * -(-columns // tile[1])
    wanted = 4 * ctx.device.compute_units
    # The simt product keeps one running sum: cut it where it would grow long.
    longest, least = (1024, 64) if simt else (int(count), _MIN_PIXELS_APART)
    total = int(count)
    for parts in range(1, total // least + 1):
        if total % parts == 0 and parts * busy >= wanted and total // parts <= longest:
            return parts
    return 1
