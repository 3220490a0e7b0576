"""When and how a convolution goes through Winograd's algorithm (templates/winograd.py)."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, compare, const, index_value, op, where
from ocl_inductor.ir.index import is_static, loop_vars, prod
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.product_operands import pack_panels
from ocl_inductor.lowering.values import Value, permute, reshape, strided_view
from ocl_inductor.templates.blocking import lanes_of
from ocl_inductor.templates.winograd import POINTS, register_tile, tiles_of, weight_coefficients

#: Below this many channels the transforms cost more than the products save.
_MIN_CHANNELS = 32


def suits(ctx: LoweringContext, x: Value, out_channels: int, sizes: Sequence[object]) -> bool:
    """Whether a 3x3 convolution without stride, dilation and groups is better off so.

    float32 only: the algorithm loses some digits, which half types have none to spare of after
    rounding and which whoever asks for float64 wants.
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
    mr, _ = register_tile(ctx.device)
    rounds = -(-tiles // mr) * mr
    direct = 9 * pixels
    # The products, and reading 36 numbers for each 9 of the weight, which few tiles share.
    transformed = 36 * rounds * 1.25 + 36 * 24
    return transformed < direct


def winograd(
    ctx: LoweringContext,
    x: Value,
    weight: Value,
    padding: tuple[int, ...],
    sizes: tuple[object, ...],
) -> Value:
    """``x`` (n, c, y, x) with adjacent channels, ``weight`` (oc, c, 3, 3)."""
    channels, oc = int(x.size[1]), int(weight.size[0])
    lanes = lanes_of(ctx.device, "float")
    _, nv = register_tile(ctx.device)
    view = strided_view(x)
    assert view is not None
    # Packed first: the transform reads each weight 36 times, a run at a time, which stays in the
    # first-level cache. (A training step transforms all weights anew.)
    run = lanes * nv * lanes
    near = pack_panels(ctx, permute(weight, (2, 3, 1, 0)), nv * lanes)
    runs = int(prod(near.size[2:])) // run
    packed = ctx.pointwise(_transformed(reshape(near, (3, 3, runs, run))), (0, 1, 2), (1, 0, 2))
    return ctx.template(
        "winograd",
        x.dtype,
        (x.size[0], oc, *sizes),  # type: ignore[arg-type]
        (0, 2, 3, 1),
        [x, packed],
        acc="float",
        n=x.size[0],
        in_sizes=tuple(x.size[2:]),
        out_sizes=sizes,
        channels=channels,
        out_channels=oc,
        padding=padding,
        x_offset=view.offset,
        x_strides=(view.stride[0], view.stride[2], view.stride[3]),
        lanes=lanes,
        tiles_hint=ctx.hint(tiles_of(x.size[0], sizes)),  # type: ignore[arg-type]
    )


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
