"""When and how a convolution goes through Winograd's algorithm (templates/winograd.py).

With few weights, one kernel: a work-item takes some tiles, which stay in its core's cache, and
reads all weights. With many, three: all tiles are brought to the interpolation points, multiplied
in a matrix product for each point, which reads a weight once, and brought back
(templates/winograd_points.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, compare, const, index_value, op, where
from ocl_inductor.ir.index import contiguous_strides, is_static, loop_vars, prod
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.product_operands import pack_panels
from ocl_inductor.lowering.values import Value, permute, reshape, strided_view
from ocl_inductor.templates.blocking import candidate_blockings, ceil_div, lanes_of
from ocl_inductor.templates.winograd import (
    MAX_CHAIN,
    POINTS,
    register_tile,
    tiles_of,
    weight_coefficients,
)

#: Below this many channels the transforms cost more than the products save.
_MIN_CHANNELS = 32
#: Costs for each weight, in multiplications of the direct sum: of a tile at all points with its
#: transforms; of reading the weight's 36 numbers instead of 9; of computing them. Measured, as all
#: figures here, on two cores with AVX-512.
_TILE, _READ, _TRANSFORM = 36 * 1.25, 36 * 12, 36 * 24
#: In one kernel each group of tiles reads all weights anew. Bytes of weights at the points from
#: which three kernels are faster however many tiles there are; and those where they are if inputs
#: and products at the points stay in a last-level cache. Best ms on Intel's driver:
#:
#:   layer, batch      weights  inputs, products  one kernel  three
#:   64, 56^2, 4         0.6 MB       14 MB          1.46      1.82
#:   128, 28^2, 4        2.4 MB        7 MB          1.28      1.29
#:   256, 14^2, 4        9.4 MB        9 MB          2.22      1.83
#:   256, 56^2, 1        9.4 MB       29 MB          4.35      4.18
#:   256, 28^2, 8        9.4 MB       58 MB          8.93      10.9
#:   256, 56^2, 4        9.4 MB      116 MB          16.6      18.6
#:   320, 64^2, 2       14.7 MB       94 MB          34.0      42.1
#:   512, 28^2, 1       37.7 MB       14 MB          6.59      4.77
#:   512, 28^2, 4       37.7 MB       58 MB          22.8      17.1
#:   512, 14^2, 16      37.7 MB       75 MB          30.0      22.4
#:   640, 32^2, 2       59.0 MB       47 MB          30.7      21.5
#:   1280, 16^2, 2       236 MB       24 MB          50.8      20.9
_MANY_WEIGHTS, _SOME_WEIGHTS = 16 << 20, 4 << 20
_BYTES_IN_CACHE, _MAX_BYTES = 32 << 20, 256 << 20
_CHANNELS_LAST = (0, 2, 3, 1)


def suits(
    ctx: LoweringContext, x: Value, weight: Value, out_channels: int, sizes: Sequence[object]
) -> bool:
    """Whether a 3x3 convolution without stride, dilation and groups is better off so.

    In float32 only, which half types are computed in as well: the algorithm loses some digits, and
    whoever asks for float64 wants them.
    """
    channels = int(x.size[1])
    lanes = lanes_of(ctx.device, "float")
    if (
        not ctx.settings.winograd
        or ctx.device.profile != "vector"
        or lanes < 8
        or x.dtype is not torch.float32
        or channels % lanes
        or out_channels % lanes
        or min(channels, out_channels) < _MIN_CHANNELS
        or not all(is_static(s) for s in (*x.size, *sizes))
    ):
        return False
    pixels = ctx.hint(prod((x.size[0], *sizes)))
    tiles = ctx.hint(tiles_of(x.size[0], tuple(sizes)))  # type: ignore[arg-type]
    if not _in_three_kernels(tiles, channels, out_channels):
        mr, _ = register_tile(ctx.device)
        tiles = ceil_div(tiles, mr) * mr
    transform = 0 if ctx.is_kept(weight) else _TRANSFORM
    return tiles * _TILE + _READ + transform < 9 * pixels


def _in_three_kernels(tiles: int, channels: int, out_channels: int) -> bool:
    """Whether all tiles are multiplied by a weight at once, which passes them through memory."""
    weights = 4 * POINTS**2 * channels * out_channels
    passing = 4 * POINTS**2 * tiles * (channels + out_channels)
    if weights > _MANY_WEIGHTS:
        return passing <= _MAX_BYTES
    return weights > _SOME_WEIGHTS and passing <= _BYTES_IN_CACHE


def winograd(
    ctx: LoweringContext,
    x: Value,
    weight: Value,
    padding: tuple[int, ...],
    sizes: tuple[object, ...],
) -> Value:
    """``x`` (n, c, y, x) with adjacent channels, ``weight`` (oc, c, 3, 3)."""
    view = strided_view(x)
    assert view is not None
    params: dict[str, Any] = {
        "acc": "float",
        "n": x.size[0],
        "in_sizes": tuple(x.size[2:]),
        "out_sizes": sizes,
        "channels": int(x.size[1]),
        "padding": padding,
        "x_offset": view.offset,
        "x_strides": (view.stride[0], view.stride[2], view.stride[3]),
        "lanes": lanes_of(ctx.device, "float"),
        "tiles_hint": ctx.hint(tiles_of(x.size[0], sizes)),  # type: ignore[arg-type]
    }
    if _in_three_kernels(params["tiles_hint"], params["channels"], int(weight.size[0])):
        return _product_of_each_point(ctx, x, weight, params)
    return _tiles_in_cache(ctx, x, weight, params)


def _tiles_in_cache(ctx: LoweringContext, x: Value, weight: Value, params: dict[str, Any]) -> Value:
    """One kernel: some tiles stay in a core's cache, while it reads all weights."""
    _, nv = register_tile(ctx.device)
    packed = _packed(ctx, weight, nv * params["lanes"])
    oc = int(weight.size[0])
    size = (params["n"], oc, *params["out_sizes"])
    return ctx.template(
        "winograd", x.dtype, size, _CHANNELS_LAST, [x, packed], out_channels=oc, **params
    )


def _product_of_each_point(
    ctx: LoweringContext, x: Value, weight: Value, params: dict[str, Any]
) -> Value:
    """Three kernels: all tiles at the points, a matrix product for each point, and the outputs."""
    channels, oc, points = params["channels"], int(weight.size[0]), POINTS**2
    tiles = tiles_of(params["n"], params["out_sizes"])
    inputs = ctx.template(
        "winograd_inputs", x.dtype, (points, tiles, channels), (0, 1, 2), [x], **params
    )
    rows, weight_bytes = params["tiles_hint"], channels * oc * 4
    blockings = candidate_blockings(ctx.device, "float", rows, oc, points, weight_bytes)
    product: dict[str, Any] = {
        "acc": "float",
        "m": tiles, "n": oc, "k": channels,
        "batch": (points,), "out_batch": (points,), "out_order": (0, 1),
        "a_layout": "strided", "a_offset": 0, "a_strides": contiguous_strides(inputs.size),
        "b_layout": "panels", "b_offset": 0, "b_strides": (1,),
        "m_hint": rows, "n_hint": oc,
        "max_chain": MAX_CHAIN,
    }  # fmt: skip
    product = ctx.tuned("gemm", product, [b.params() for b in blockings])
    packed = _packed(ctx, weight, product["nv"] * product["lanes"])
    product["b_strides"] = (int(prod(packed.size[1:])),)
    size = (points, tiles, oc)
    products = ctx.template("gemm", x.dtype, size, (0, 1, 2), [inputs, packed], **product)
    outputs = {k: params[k] for k in ("acc", "n", "out_sizes", "lanes", "tiles_hint")}
    size = (params["n"], oc, *params["out_sizes"])
    return ctx.template(
        "winograd_outputs", x.dtype, size, _CHANNELS_LAST, [products], channels=oc, **outputs
    )


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
