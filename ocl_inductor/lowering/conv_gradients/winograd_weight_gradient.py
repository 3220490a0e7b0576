"""When and how a weight's gradient goes through Winograd's algorithm
(templates/winograd/winograd_weight_gradient.py)."""

from __future__ import annotations

from typing import TypedDict

from ocl_inductor.ir.index import Size, prod
from ocl_inductor.lowering.conv.geometry import Geometry, WeightGradient
from ocl_inductor.lowering.conv.winograd import allowed
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, permute, reshape, strided_view
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.templates.blocking import lanes_of
from ocl_inductor.templates.winograd.winograd import POINTS, tiles_of
from ocl_inductor.templates.winograd.winograd_costs import bytes_in_cache, winograd_costs
from ocl_inductor.templates.winograd.winograd_points import (
    WINOGRAD_INPUTS,
    ImageParams,
    InputsParams,
)
from ocl_inductor.templates.winograd.winograd_weight_gradient import (
    WINOGRAD_GRADIENTS,
    WINOGRAD_WEIGHT_GRADIENT,
    PointsGradientParams,
    choose_partition,
)


def suits(ctx: LoweringContext, p: WeightGradient) -> bool:
    """Whether the gradient of a 3x3 window without stride, dilation and groups is better off so."""
    coarse, fine, g = p.coarse, p.fine, p.g
    ones = (1,) * g.ndim
    plain = (g.kernel, g.stride, g.dilation, g.groups) == ((3, 3), ones, ones, 1)
    every = (*coarse.size, *fine.size)
    if not plain or not allowed(ctx, p.dtype, (coarse.size[1], fine.size[1]), every):
        return False
    rows, columns = int(coarse.size[1]), int(fine.size[1])
    sizes = tuple(coarse.size[2:])
    tiles = int(tiles_of(coarse.size[0], sizes))
    passing = 4 * POINTS**2 * tiles * (rows + columns)
    costs = winograd_costs(ctx.device)
    near = passing <= bytes_in_cache(ctx.device)
    transform = costs.gradient_near if near else costs.gradient_far
    cost = tiles * (costs.gradient_tile + transform * (1 / rows + 1 / columns))
    cost += costs.gradient_weight
    return passing <= costs.gradient_max_bytes and cost < 9 * int(prod((coarse.size[0], *sizes)))


def winograd_weight_gradient(
    ctx: LoweringContext, coarse: Value, fine: Value, g: Geometry
) -> Value:
    """(rows, columns, 3, 3) from ``coarse`` (n, rows, y, x), an element for each window, and
    ``fine`` (n, columns, y, x), over which windows slide; both with adjacent channels."""
    rows, columns = int(coarse.size[1]), int(fine.size[1])
    n, sizes = coarse.size[0], tuple(coarse.size[2:])
    tiles = int(tiles_of(n, sizes))
    lanes = lanes_of(ctx.device, "float")
    image = ImageParams(
        acc="float", n=n, out_sizes=sizes, channels=rows, lanes=lanes, tiles_hint=tiles,
        **_lying(coarse),
    )  # fmt: skip
    size = (POINTS**2, tiles, rows)
    gradients = ctx.template(WINOGRAD_GRADIENTS, coarse.dtype, size, (0, 1, 2), [coarse], image)
    windows = InputsParams(
        acc="float", n=n, out_sizes=sizes, channels=columns, lanes=lanes, tiles_hint=tiles,
        block=columns, in_sizes=tuple(fine.size[2:]), padding=g.padding, **_lying(fine),
    )  # fmt: skip
    lead = (1, POINTS**2, tiles, columns)
    inputs = ctx.template(WINOGRAD_INPUTS, fine.dtype, lead, (0, 1, 2, 3), [fine], windows)
    part = choose_partition(ctx.device, tiles, rows, columns)
    params = PointsGradientParams(
        tiles=tiles, rows=rows, columns=columns, acc="float",
        parts=part.parts, tiles_per_part=part.tiles_per_part, tile=part.tile,
    )  # fmt: skip
    whole = (part.parts, rows, 3, 3, columns)
    operands, order = [gradients, inputs], (0, 1, 2, 3, 4)
    result = ctx.template(WINOGRAD_WEIGHT_GRADIENT, coarse.dtype, whole, order, operands, params)
    if part.parts > 1:
        result = reduce_dims(ctx, result, [0], "sum")
    return permute(reshape(result, (rows, 3, 3, columns)), (0, 3, 1, 2))


class _Lying(TypedDict):
    x_offset: Size
    x_strides: tuple[Size, ...]


def _lying(x: Value) -> _Lying:
    view = strided_view(x)
    assert view is not None
    return {
        "x_offset": view.offset,
        "x_strides": (view.stride[0], view.stride[2], view.stride[3]),
    }
