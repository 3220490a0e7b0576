"""Convolutions: which of the ways to compute one suits it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from ocl_inductor.ir.index import loop_vars, same
from ocl_inductor.lowering.conv.as_matmul import as_matmul, pixel_shuffle
from ocl_inductor.lowering.conv.bytes_conv import conv_of_bytes
from ocl_inductor.lowering.conv.direct import (
    by_depthwise_template,
    by_template,
    channels_adjacent,
    depthwise_lanes,
)
from ocl_inductor.lowering.conv.dot_conv import dot_conv
from ocl_inductor.lowering.conv.expressions import (
    MAX_UNROLLED_TAPS,
    by_reduction,
    depthwise_expression,
)
from ocl_inductor.lowering.conv.geometry import Convolution, Geometry, output_size, read_geometry
from ocl_inductor.lowering.conv.matrix_conv import conv_by_matrix_unit, conv_partition
from ocl_inductor.lowering.conv.mma_conv import mma_conv
from ocl_inductor.lowering.conv.narrow_conv import narrow_conv
from ocl_inductor.lowering.conv.winograd import declines, winograd
from ocl_inductor.lowering.core.choose import Declined, Implementation, choose
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, from_sums, full
from ocl_inductor.lowering.core.values import Value, permute, reindex, reshape
from ocl_inductor.lowering.matmul.bytes_product import are_bytes
from ocl_inductor.lowering.matmul.matmul import binary, compute_dtype
from ocl_inductor.lowering.matmul.mma_product import takes_halves
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


@register(aten.convolution.default)
def lower_convolution(
    ctx: LoweringContext,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    """``x`` (n, c, \\*spatial); ``weight`` (oc, c/groups, \\*kernel).

    Transposed: ``weight`` (c, oc/groups, \\*kernel).
    """
    if not all(isinstance(v, Value) for v in (x, weight)):
        raise CannotLower("an operand lives on the host")
    if x.dtype != weight.dtype or x.dtype.is_complex or x.dtype is torch.bool:
        raise CannotLower(f"convolution of {x.dtype} and {weight.dtype}")
    g = read_geometry(x, weight, stride, padding, dilation, transposed, output_padding, groups)
    result = convolve(ctx, x, weight, g)
    if bias is not None:
        column = reshape(cast_value(bias, result.dtype), (bias.size[0], *[1] * g.ndim))
        result = binary("add", result, column)
    return from_sums(result, x.dtype)


def convolve(ctx: LoweringContext, x: Value, weight: Value, g: Geometry) -> Value:
    """The convolution without bias, in the compute dtype, channels-last in memory."""
    dtype = compute_dtype(x.dtype)
    n = x.size[0]
    oc = int(weight.size[1]) * g.groups if g.transposed else int(weight.size[0])
    result_size = (n, oc, *g.sizes)
    if any(same(s, 0) for s in (*result_size, *x.size, *g.kernel)):
        return full(result_size, 0, dtype)
    if not dtype.is_floating_point:
        return by_reduction(ctx, x, weight, g, result_size)
    pairs = (ctx.device.bf16_dot or ctx.device.amx) and x.dtype is torch.bfloat16
    halves = g.groups == 1 and takes_halves(ctx, x, weight)
    if not pairs and not halves:
        x, weight = cast_value(x, dtype), cast_value(weight, dtype)
    if are_bytes(ctx.device, x, weight):
        of_bytes = Convolution(x, weight, g, result_size, dtype)
        found = choose(ctx, "convolution", of_bytes, _OF_BYTES, "a convolution of floats")
        if found is not None:
            return found
    ones = (1,) * g.ndim
    # Whole blocks, each of one pixel: no padding on either side, none of the output.
    blocks = all(p == 0 for p in g.padding) and g.groups == 1 and _exact(x, g)
    if blocks and g.kernel == ones and g.stride == ones:
        if g.transposed:
            weight = permute(weight, _swap_channels(g.ndim))
        return as_matmul(ctx, x, weight, result_size)
    if blocks and g.transposed and g.dilation == ones and g.kernel == g.stride:
        return pixel_shuffle(ctx, x, weight, g, result_size)
    if g.transposed and g.stride == ones:
        x, weight, g = _as_plain(x, weight, g)
    problem = Convolution(x, weight, g, result_size, dtype)
    return choose(ctx, "convolution", problem, _CONVOLUTIONS)


def _depthwise_by_template(ctx: LoweringContext, p: Convolution) -> Value | Declined:
    channels = int(p.x.size[1])
    if not p.depthwise or int(p.size[1]) != channels:
        return Declined("it is not depthwise")
    lanes = depthwise_lanes(ctx, p.dtype, channels)
    if p.g.ndim > 2 or not lanes:
        return Declined(f"{p.g.ndim} dimensions, or {channels} channels that make no vectors")
    return by_depthwise_template(ctx, p.x, cast_value(p.weight, p.dtype), p.g, lanes)


def _depthwise_by_expression(ctx: LoweringContext, p: Convolution) -> Value | Declined:
    taps = math.prod(p.g.kernel)
    if not p.depthwise or taps > MAX_UNROLLED_TAPS:
        return Declined(f"it is not depthwise, or has more taps ({taps}) than are unrolled")
    return depthwise_expression(ctx, *_wide(p), p.g, p.size)


def _by_winograd(ctx: LoweringContext, p: Convolution) -> Value | Declined:
    x, weight = _wide(p)
    why_not = declines(ctx, x, weight, p.g, int(p.size[1]))
    if why_not is not None:
        return why_not
    return winograd(ctx, channels_adjacent(ctx, x), weight, p.g.padding, p.g.sizes)


def _by_matrix_unit(ctx: LoweringContext, p: Convolution) -> Value | Declined:
    x, weight = _wide(p)
    part = conv_partition(ctx, x, weight, p.g)
    if isinstance(part, Declined):
        return part
    return conv_by_matrix_unit(ctx, part, channels_adjacent(ctx, x), weight, p.g, p.size)


def _by_template(ctx: LoweringContext, p: Convolution) -> Value:
    return by_template(ctx, *_wide(p), p.g, p.size)


def _wide(p: Convolution) -> tuple[Value, Value]:
    """The operands in the dtype of the sums."""
    return cast_value(p.x, p.dtype), cast_value(p.weight, p.dtype)


_OF_BYTES = (Implementation("a convolution of bytes", conv_of_bytes),)
#: In the order in which they are tried.
_CONVOLUTIONS: tuple[Implementation[Convolution, Value], ...] = (
    Implementation("mma_conv", mma_conv),
    Implementation("narrow_conv", narrow_conv),
    Implementation("dot_conv", dot_conv),
    Implementation("depthwise", _depthwise_by_template),
    Implementation("unrolled taps", _depthwise_by_expression),
    Implementation("winograd", _by_winograd),
    Implementation("matrix_conv", _by_matrix_unit),
    Implementation("conv", _by_template),
)


def _swap_channels(nd: int) -> tuple[int, ...]:
    return (1, 0, *range(2, nd + 2))


def _exact(x: Value, g: Geometry) -> bool:
    """Whether the result holds whole blocks only (no output padding)."""
    return all(same(o, i * s) for o, i, s in zip(g.sizes, x.size[2:], g.stride, strict=True))


def _as_plain(x: Value, weight: Value, g: Geometry) -> tuple[Value, Value, Geometry]:
    """A transposed convolution of stride 1 as a plain one: flipped taps, the other padding.

    Unless its result reaches further than the plain one's (output padding).
    """
    padding = tuple(
        d * (k - 1) - q for d, k, q in zip(g.dilation, g.kernel, g.padding, strict=True)
    )
    natural = [
        output_size(*args)
        for args in zip(x.size[2:], g.kernel, g.stride, padding, g.dilation, strict=True)
    ]
    if not all(map(same, natural, g.sizes)):
        return x, weight, g
    nd, icg = g.ndim, int(weight.size[0]) // g.groups
    ocg = int(weight.size[1])
    taps = permute(reshape(weight, (g.groups, icg, ocg, *g.kernel)), (0, 2, 1, *range(3, nd + 3)))
    taps = reshape(taps, (g.groups * ocg, icg, *g.kernel))
    variables = loop_vars(taps.ndim)
    flipped = [k - 1 - v for k, v in zip(g.kernel, variables[2:], strict=True)]
    taps = reindex(taps, taps.size, [*variables[:2], *flipped])
    return x, taps, replace(g, padding=padding, transposed=False)
