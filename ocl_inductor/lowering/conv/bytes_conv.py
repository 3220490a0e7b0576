"""Convolutions of affine functions of bytes: integers are convolved, and scaled afterwards.

The formula is that of products (lowering/matmul/bytes_product.py). Padding holds the input's zero,
so that nothing is left of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from ocl_inductor.ir.expr import const, op
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
    Number,
    at_start,
    minus,
    product_of_integers,
    scaled,
    times,
    varies,
    without_zeros,
)
from ocl_inductor.lowering.matmul.problem import Gemm


def conv_of_bytes(ctx: LoweringContext, problem: Convolution) -> Value | Declined:
    """The convolution to float32 of operands that ``are_bytes``."""
    x, w, g = affine_bytes(problem.x), affine_bytes(problem.weight), problem.g
    assert x is not None and w is not None
    if problem.depthwise or g.transposed:
        return Declined("it is depthwise or transposed")
    if varies(x, range(problem.x.ndim)) or varies(w, range(1, problem.weight.ndim)):
        return Declined("a scale varies within a window")
    terms = math.prod(int(s) for s in problem.weight.size[1:])
    if terms > MAX_TERMS:
        return Declined("sums of a window may not fit into int32")
    if any(g.padding) and not isinstance(x.zero, int):
        return Declined("no byte for padding is known to stand for 0")
    x = replace(x, bytes=ctx.realize(x.bytes, channels_last(g.ndim)))
    w = replace(w, bytes=ctx.realize(w.bytes))
    integers = replace(problem, x=x.bytes, weight=w.bytes, dtype=torch.int32)
    if isinstance(x.zero, int):
        integers = replace(integers, fill=x.zero)
    sums = _convolved(ctx, integers)
    if isinstance(sums, Declined):
        return sums
    p, q = _of_tensor(ctx, x.zero), _of_channel(ctx, w.zero)
    sums = without_zeros(
        sums, p, q, lambda: _window_sums(ctx, x, p, problem), lambda: _weight_sums(ctx, w)
    )
    return scaled(sums, _of_tensor(ctx, x.scale), _of_channel(ctx, w.scale))


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


def _weight_sums(ctx: LoweringContext, w: AffineBytes) -> Value:
    """``sum Q`` of each output channel, for the result."""
    numbers = cast_value(w.bytes, torch.int32)
    sums = ctx.reduce(numbers, range(1, numbers.ndim), "sum")
    return reshape(sums, (numbers.size[0], *(1,) * (numbers.ndim - 2)))


def _window_sums(ctx: LoweringContext, x: AffineBytes, p: Number, problem: Convolution) -> Number:
    """``sum (P - p)`` of each window, 0 in its padding, for each of the result's channels."""
    g, size = problem.g, problem.size
    numbers = cast_value(x.bytes, torch.int32)
    n, channels, *pixels = numbers.size
    channels_of_group = int(channels) // g.groups
    grouped = reshape(numbers, (n, g.groups, channels_of_group, *pixels))
    summed = ctx.reduce(grouped, [2], "sum")
    if isinstance(p, int) and p:
        offset = const(p * channels_of_group, torch.int32)
        summed = Value(summed.size, torch.int32, op("sub", summed.body, offset))
    taps = full((g.groups, 1, *g.kernel), 1, torch.int32)
    windows = by_reduction(ctx, summed, taps, g, (n, g.groups, *g.sizes))
    each = (n, g.groups, int(size[1]) // g.groups, *g.sizes)
    sums = reshape(expand(reshape(windows, (n, g.groups, 1, *g.sizes)), each), size)
    # A tensor of zeros comes without padding.
    terms = channels_of_group * math.prod(g.kernel)
    return sums if isinstance(p, int) else minus(sums, times(p, terms))


def _of_tensor(ctx: LoweringContext, x: Number) -> Number:
    """What does not vary at all."""
    return x if isinstance(x, int) else reshape(_first(ctx, x, range(x.ndim)), ())


def _of_channel(ctx: LoweringContext, x: Number) -> Number:
    """What varies along a weight's first dimension alone, for the result."""
    if isinstance(x, int):
        return x
    return reshape(_first(ctx, x, range(1, x.ndim)), (x.size[0], *(1,) * (x.ndim - 2)))


def _first(ctx: LoweringContext, x: Value, dims: Sequence[int]) -> Value:
    found = at_start(ctx, x, dims)
    assert isinstance(found, Value)
    return found
