"""Convolutions of affine functions of bytes: integers are convolved, and scaled afterwards.

The formula is that of products (lowering/matmul/bytes_product.py). Padding holds the input's zero,
so that nothing is left of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from ocl_inductor.ir.expr import cast, op
from ocl_inductor.ir.index import prod
from ocl_inductor.lowering.conv.dot_conv import dot_conv
from ocl_inductor.lowering.conv.expressions import by_reduction
from ocl_inductor.lowering.conv.geometry import Convolution, channels_first, channels_last
from ocl_inductor.lowering.core.affine import AffineBytes, affine_bytes
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, full
from ocl_inductor.lowering.core.values import Value, expand, permute, reshape, transposed
from ocl_inductor.lowering.matmul.bytes_product import (
    MAX_TERMS,
    at_start,
    less,
    product_of_integers,
    scaled,
    varies,
)
from ocl_inductor.lowering.matmul.problem import Gemm


def conv_of_bytes(ctx: LoweringContext, problem: Convolution) -> Value | Declined:
    """The convolution to float32 of operands that are affine functions of bytes."""
    x, w, g = affine_bytes(problem.x), affine_bytes(problem.weight), problem.g
    if x is None or w is None:
        return Declined("an operand is no affine function of bytes")
    if problem.depthwise or g.transposed:
        return Declined("it is depthwise or transposed")
    if varies(x, range(problem.x.ndim)) or varies(w, range(1, problem.weight.ndim)):
        return Declined("a scale varies within a window")
    if math.prod(int(s) for s in problem.weight.size[1:]) > MAX_TERMS:
        return Declined("sums of a window may not fit into int32")
    x = replace(x, bytes=ctx.realize(x.bytes, channels_last(g.ndim)))
    w = replace(w, bytes=ctx.realize(w.bytes))
    integers = replace(problem, x=x.bytes, weight=w.bytes, dtype=torch.int32)
    if x.zero is not None:
        integers = replace(integers, fill=cast(x.zero.body, x.bytes.dtype))
    sums = _convolved(ctx, integers)
    if isinstance(sums, Declined):
        return sums
    return scaled(
        _without_zeros(ctx, sums, x, w, problem),
        *(_of_tensor(ctx, s.scale) for s in (x,) if s.scale is not None),
        *(_of_channel(ctx, s.scale, g.ndim) for s in (w,) if s.scale is not None),
    )


def _convolved(ctx: LoweringContext, problem: Convolution) -> Value | Declined:
    """The convolution of integers; of single pixels as a product."""
    x, w, g = problem.x, problem.weight, problem.g
    ones = (1,) * g.ndim
    if (g.kernel, g.stride, g.padding, g.groups) != (ones, ones, (0,) * g.ndim, 1):
        return dot_conv(ctx, problem)
    rows = permute(x, channels_last(g.ndim))
    pixels = reshape(rows, (prod(rows.size[:-1]), rows.size[-1]))
    weight = transposed(reshape(w, w.size[:2]))
    product = product_of_integers(ctx, Gemm(pixels, weight, torch.int32, (0,)))
    if isinstance(product, Declined):
        return product
    return permute(reshape(product, (*rows.size[:-1], w.size[0])), channels_first(g.ndim))


def _without_zeros(
    ctx: LoweringContext, sums: Value, x: AffineBytes, w: AffineBytes, problem: Convolution
) -> Value:
    """``sum (P - p) (Q - q)`` of ``sums``, ``sum P Q``."""
    g = problem.g
    if x.zero is not None:
        weights = cast_value(w.bytes, torch.int32)
        columns = ctx.reduce(weights, range(1, weights.ndim), "sum")
        sums = less(
            sums, _of_tensor(ctx, x.zero), reshape(columns, (w.bytes.size[0], *(1,) * g.ndim))
        )
    if w.zero is not None:
        sums = less(sums, _of_channel(ctx, w.zero, g.ndim), _window_sums(ctx, x, problem))
    return sums


def _window_sums(ctx: LoweringContext, x: AffineBytes, problem: Convolution) -> Value:
    """``sum (P - p)`` over each window, for each of the result's channels."""
    g, size = problem.g, problem.size
    numbers = cast_value(x.bytes, torch.int32)
    if x.zero is not None:
        numbers = Value(numbers.size, torch.int32, op("sub", numbers.body, x.zero.body))
    n, channels, *pixels = numbers.size
    grouped = reshape(numbers, (n, g.groups, int(channels) // g.groups, *pixels))
    summed = ctx.reduce(grouped, [2], "sum")
    taps = full((g.groups, 1, *g.kernel), 1, torch.int32)
    windows = by_reduction(ctx, summed, taps, g, (n, g.groups, *g.sizes))
    each = (n, g.groups, int(size[1]) // g.groups, *g.sizes)
    return reshape(expand(reshape(windows, (n, g.groups, 1, *g.sizes)), each), size)


def _of_tensor(ctx: LoweringContext, x: Value) -> Value:
    """What does not vary at all."""
    return reshape(at_start(ctx, x, range(x.ndim)), ())


def _of_channel(ctx: LoweringContext, x: Value, nd: int) -> Value:
    """What varies along a weight's first dimension alone, for the result."""
    return reshape(at_start(ctx, x, range(1, x.ndim)), (x.size[0], *(1,) * nd))
