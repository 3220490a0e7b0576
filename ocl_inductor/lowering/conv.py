"""Convolutions: as matrix products, as the conv template, or (depthwise) as plain expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, const, masked, op
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.matmul import (
    accumulator,
    binary,
    compute_dtype,
    matmul,
    pack_panels,
)
from ocl_inductor.lowering.registry import CannotLower, register
from ocl_inductor.lowering.shapes import all_of, cast_value, full, in_bounds, static_sizes
from ocl_inductor.lowering.values import (
    Value,
    permute,
    reindex,
    reshape,
    strided_view,
)
from ocl_inductor.lowering.winograd import suits, winograd
from ocl_inductor.templates.blocking import candidate_blockings, lanes_of
from ocl_inductor.templates.simt_tiles import candidate_tiles

aten = torch.ops.aten

#: Depthwise convolutions with more taps than this would be too long an expression.
_MAX_UNROLLED_TAPS = 49
#: Up to this many channels a padded copy of the input pays: its window rows are contiguous runs.
_MAX_PADDED_CHANNELS = 8


@dataclass(frozen=True, slots=True)
class Geometry:
    """The spatial arguments, one entry for each dimension; ``sizes`` are the output's."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    groups: int
    sizes: tuple[Size, ...]

    @property
    def ndim(self) -> int:
        return len(self.kernel)


def _one_each(x: Sequence[int] | int, n: int, what: str) -> tuple[int, ...]:
    values = static_sizes([x] if isinstance(x, int) else list(x), f"convolution's {what}")
    return tuple(values * n if len(values) == 1 else values)


def output_size(size: Size, kernel: int, stride: int, padding: int, dilation: int) -> Size:
    """Extent of a plain convolution's result along one dimension (torch.nn.Conv2d's formula)."""
    span = size + (2 * padding - dilation * (kernel - 1) - 1)
    if is_static(span):
        return int(span) // stride + 1
    return (FloorDiv(span, stride) if stride != 1 else span) + 1


def transposed_output_size(
    size: Size, kernel: int, stride: int, padding: int, dilation: int, extra: int
) -> Size:
    """Extent of a transposed convolution's result (torch.nn.ConvTranspose2d's formula)."""
    total = (size - 1) * stride + (dilation * (kernel - 1) + 1 + extra - 2 * padding)
    return int(total) if is_static(total) else sympy.expand(total)


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
    return cast_value(result, x.dtype)


def read_geometry(
    x: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Geometry:
    """The arguments of ``aten.convolution``, checked."""
    nd = x.ndim - 2
    if weight.ndim != x.ndim:
        raise CannotLower("convolution without a batch dimension")
    if nd not in (1, 2, 3):
        raise CannotLower(f"convolution in {nd} dimensions")
    static_sizes((x.size[1], *weight.size), "convolution over channels and kernel")
    kernel = tuple(int(s) for s in weight.size[2:])
    strides = _one_each(stride, nd, "stride")
    paddings = _one_each(padding, nd, "padding")
    dilations = _one_each(dilation, nd, "dilation")
    extras = _one_each(output_padding, nd, "output padding")
    per_dim = list(zip(x.size[2:], kernel, strides, paddings, dilations, strict=True))
    if transposed:
        sizes = tuple(
            transposed_output_size(*args, extra)
            for args, extra in zip(per_dim, extras, strict=True)
        )
    else:
        sizes = tuple(output_size(*args) for args in per_dim)
    return Geometry(kernel, strides, paddings, dilations, bool(transposed), groups, sizes)


def convolve(ctx: LoweringContext, x: Value, weight: Value, g: Geometry) -> Value:
    """The convolution without bias, in the compute dtype, channels-last in memory."""
    dtype = compute_dtype(x.dtype)
    n, channels = x.size[0], int(x.size[1])
    oc = int(weight.size[1]) * g.groups if g.transposed else int(weight.size[0])
    result_size = (n, oc, *g.sizes)
    if any(same(s, 0) for s in (*result_size, *x.size, *g.kernel)):
        return full(result_size, 0, dtype)
    if not dtype.is_floating_point:
        return _by_reduction(ctx, x, weight, g, result_size)
    x, weight = cast_value(x, dtype), cast_value(weight, dtype)
    ones = (1,) * g.ndim
    unpadded = all(p == 0 for p in g.padding)
    if g.groups == 1 and unpadded and g.kernel == ones and g.stride == ones:
        if g.transposed:
            weight = permute(weight, _swap_channels(g.ndim))
        return _as_matmul(ctx, x, weight, result_size)
    adjacent = (
        g.transposed and unpadded and g.groups == 1 and g.dilation == ones
        and g.kernel == g.stride and _exact(x, g)
    )  # fmt: skip
    if adjacent:
        return _pixel_shuffle(ctx, x, weight, g, result_size)
    if g.transposed and g.stride == ones:
        x, weight, g = _as_plain(x, weight, g)
    depthwise = g.groups == channels and g.groups > 1 and not g.transposed
    lanes = _depthwise_lanes(ctx, x.dtype, channels)
    if depthwise and oc == channels and g.ndim <= 2 and lanes:
        return _by_depthwise_template(ctx, x, weight, g, lanes)
    if depthwise and math.prod(g.kernel) <= _MAX_UNROLLED_TAPS:
        return _depthwise(ctx, x, weight, g, result_size)
    plain = (g.kernel, g.stride, g.dilation) == ((3, 3), (1, 1), (1, 1))
    if plain and g.groups == 1 and not g.transposed and suits(ctx, x, oc, g.sizes):
        return winograd(ctx, _channels_adjacent(ctx, x), weight, g.padding, g.sizes)
    return _by_template(ctx, x, weight, g, result_size)


def _swap_channels(nd: int) -> tuple[int, ...]:
    return (1, 0, *range(2, nd + 2))


def channels_last(nd: int) -> tuple[int, ...]:
    """Permutation of (n, c, \\*spatial) to (n, \\*spatial, c)."""
    return (0, *range(2, nd + 2), 1)


def _channels_first(nd: int) -> tuple[int, ...]:
    """Permutation of (n, \\*spatial, c) to (n, c, \\*spatial)."""
    return (0, nd + 1, *range(1, nd + 1))


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


# -- as matrix products --------------------------------------------------------------------


def _pixel_rows(ctx: LoweringContext, x: Value) -> Value:
    """(n, c, \\*spatial) in memory as a matrix (pixels, c)."""
    order = channels_last(x.ndim - 2)
    rows = permute(ctx.realize(x, order), order)
    return reshape(rows, (prod(rows.size[:-1]), rows.size[-1]))


def _as_matmul(
    ctx: LoweringContext, x: Value, weight: Value, result_size: tuple[Size, ...]
) -> Value:
    """A window of one pixel: (pixels, c) times (c, oc)."""
    oc, channels = weight.size[:2]
    product = matmul(ctx, _pixel_rows(ctx, x), permute(reshape(weight, (oc, channels)), (1, 0)))
    nd = x.ndim - 2
    product = reshape(product, (result_size[0], *result_size[2:], oc))
    return permute(product, _channels_first(nd))


def _pixel_shuffle(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, result_size: tuple[Size, ...]
) -> Value:
    """Transposed with stride equal to the kernel: each pixel gives a block of its own.

    (pixels, c) times (c, \\*kernel, oc), whose result is viewed as (n, oc, \\*spatial*kernel).
    """
    nd = g.ndim
    channels, oc = int(weight.size[0]), int(weight.size[1])
    taps = permute(weight, (0, *range(2, nd + 2), 1))
    product = matmul(ctx, _pixel_rows(ctx, x), reshape(taps, (channels, math.prod(g.kernel) * oc)))
    blocks = reshape(product, (x.size[0], *x.size[2:], *g.kernel, oc))
    variables = loop_vars(nd + 2)
    pixels = [FloorDiv(v, k) for v, k in zip(variables[2:], g.kernel, strict=True)]
    inner = [v - k * p for v, k, p in zip(variables[2:], g.kernel, pixels, strict=True)]
    return reindex(blocks, result_size, [variables[0], *pixels, *inner, variables[1]])


# -- as expressions ------------------------------------------------------------------------


def window_element(
    x: Value, channel: sympy.Expr, n: sympy.Expr, pixel: Sequence[sympy.Expr],
    tap: Sequence[sympy.Expr | int], g: Geometry, ranges: Any,
) -> Expr:  # fmt: skip
    """Element of ``x`` under ``tap`` of the window at output ``pixel``; zero outside."""
    where = [
        p * s - q + t * d
        for p, s, q, t, d in zip(pixel, g.stride, g.padding, tap, g.dilation, strict=True)
    ]
    inside = all_of(in_bounds(w, 0, s, ranges) for w, s in zip(where, x.size[2:], strict=True))
    element = x.at([n, channel, *where])
    return element if inside is None else masked(inside, element, const(0, x.dtype))


def _depthwise(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, result_size: tuple[Size, ...]
) -> Value:
    """Each output channel reads one input channel: taps unrolled, vectors along channels."""
    order = channels_last(g.ndim)
    x = ctx.realize(x, order)
    oc, channels = int(weight.size[0]), int(x.size[1])
    taps = permute(reshape(weight, (oc, *g.kernel)), (*range(1, g.ndim + 1), 0))
    taps = ctx.realize(taps, range(g.ndim + 1))
    variables = loop_vars(g.ndim + 2)
    ranges = dict(zip(variables, result_size, strict=True))
    channel = variables[1] if oc == channels else FloorDiv(variables[1], oc // channels)
    total: Expr | None = None
    for index in _taps(g.kernel):
        element = window_element(x, channel, variables[0], variables[2:], index, g, ranges)
        term = op("mul", element, taps.at([*index, variables[1]]))
        total = term if total is None else op("add", total, term)
    assert total is not None
    identity = list(variables)
    value = reindex(Value(result_size, x.dtype, total), result_size, identity)
    return ctx.pointwise(value, order)


def _taps(kernel: Sequence[int]) -> list[tuple[int, ...]]:
    taps: list[tuple[int, ...]] = [()]
    for k in kernel:
        taps = [(*t, i) for t in taps for i in range(k)]
    return taps


def _by_reduction(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, result_size: tuple[Size, ...]
) -> Value:
    """Integers: the definition, as a sum over input channels and taps."""
    if g.transposed:
        raise CannotLower(f"transposed convolution of {x.dtype}")
    nd, icg = g.ndim, int(weight.size[1])
    size = (*result_size, icg, *g.kernel)
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    n, oc, pixel = variables[0], variables[1], variables[2 : nd + 2]
    c, tap = variables[nd + 2], variables[nd + 3 :]
    channel = c
    if g.groups > 1:
        channel = FloorDiv(oc, int(weight.size[0]) // g.groups) * icg + c
    element = window_element(x, channel, n, pixel, tap, g, ranges)
    product = op("mul", element, weight.at([oc, c, *tap]))
    return ctx.reduce(Value(size, x.dtype, product), range(nd + 2, len(size)), "sum")


# -- by the templates ----------------------------------------------------------------------


def _depthwise_lanes(ctx: LoweringContext, dtype: torch.dtype, channels: int) -> int:
    """Elements of a vector that divides the channels; 0 where short vectors would not pay."""
    if ctx.device.profile != "vector":
        return 0
    lanes = full_lanes = lanes_of(ctx.device, accumulator(dtype))
    while channels % lanes:
        lanes //= 2
    return lanes if 4 * lanes >= full_lanes else 0


def _by_depthwise_template(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, lanes: int
) -> Value:
    """One or two spatial dimensions; one is taken as a single row of an image."""
    channels, nd = int(x.size[1]), g.ndim
    x = _channels_adjacent(ctx, x)
    view = strided_view(x)
    assert view is not None
    taps = permute(reshape(weight, (channels, *g.kernel)), (*range(1, nd + 1), 0))
    taps = ctx.realize(taps, range(nd + 1))
    lead = 2 - nd
    stride = [0 if same(s, 1) else t for s, t in zip(view.size, view.stride, strict=True)]
    return ctx.template(
        "depthwise",
        x.dtype,
        (x.size[0], channels, *g.sizes),
        channels_last(nd),
        [x, taps],
        acc=accumulator(x.dtype),
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


def zero_padded(ctx: LoweringContext, x: Value, padding: Sequence[int]) -> Value:
    """A channels-last copy with ``padding`` zeros on both sides of each spatial dimension."""
    size = (*x.size[:2], *(s + 2 * q for s, q in zip(x.size[2:], padding, strict=True)))
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    where = [v - q for v, q in zip(variables[2:], padding, strict=True)]
    inside = all_of(in_bounds(w, 0, s, ranges) for w, s in zip(where, x.size[2:], strict=True))
    element = x.at([*variables[:2], *where])
    if inside is not None:
        element = masked(inside, element, const(0, x.dtype))
    padded = reindex(Value(size, x.dtype, element), size, list(variables))
    return ctx.pointwise(padded, channels_last(x.ndim - 2))


def _channels_adjacent(ctx: LoweringContext, x: Value) -> Value:
    """``x`` in memory with unit stride along channels."""
    view = strided_view(x)
    if view is not None and (same(view.stride[1], 1) or same(view.size[1], 1)):
        return x
    return ctx.realize(x, channels_last(x.ndim - 2))


def _by_template(
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
        x = _channels_adjacent(ctx, x)
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
    params: dict[str, Any] = {
        "acc": accumulator(x.dtype),
        "pixels_hint": ctx.hint(prod((n, *g.sizes))),
        "n": n,
        "in_sizes": tuple(x.size[2:]),
        "out_sizes": g.sizes,
        "groups": groups,
        "icg": icg,
        "ocg": ocg,
        "kernel": g.kernel,
        "stride": g.stride,
        "padding": g.padding,
        "dilation": g.dilation,
        "transposed": g.transposed,
        "x_offset": view.offset,
        "x_strides": (stride[0], *stride[2:], view.stride[1] if not vector else 1),
    }
    acc, pixels = params["acc"], params["pixels_hint"]
    if vector:
        weight_bytes = math.prod(int(s) for s in taps.size) * x.dtype.itemsize
        blockings = candidate_blockings(ctx.device, acc, pixels, ocg, groups, weight_bytes)
        params = ctx.tuned("conv", params, [b.params() for b in blockings])
        # All taps of a panel together: (group, panel, tap*icg, lane).
        rows = reshape(taps, (groups, math.prod(g.kernel) * icg, ocg))
        packed = pack_panels(ctx, rows, params["nv"] * params["lanes"])
    else:
        tiles = candidate_tiles(ctx.device, acc, pixels, ocg)
        params = ctx.tuned("conv", params, [t.params() for t in tiles])
        packed = ctx.realize(taps, range(taps.ndim))
    operands = [x, packed]
    if vector and (g.transposed or any(g.padding)):
        operands.append(ctx.pointwise(full((icg,), 0, x.dtype), (0,)))
    return ctx.template("conv", x.dtype, result_size, channels_last(nd), operands, **params)
