"""When and how a convolution goes through the matrix unit (templates/conv/matrix_conv.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import torch

from ocl_inductor.ir.index import Size, contiguous_strides, is_static, same
from ocl_inductor.lowering.conv.geometry import Geometry, channels_last
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import StridedView, Value, strided_view
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.conv.matrix_conv import (
    MATRIX_CONV,
    MATRIX_CONV_PARTS,
    MatrixConvParams,
    MatrixConvPartsParams,
    plane_words,
)
from ocl_inductor.templates.conv.pixel_planes import Planes, planes
from ocl_inductor.templates.gemm.matrix_gemm import BLOCK, DEPTH, STEP
from ocl_inductor.templates.matrix_unit_costs import MatrixUnitCosts, matrix_unit_costs

#: Terms of a sum that the unit keeps in a tile: rounding errors grow with their number. Of 512
#: channels and 3x3 taps, normally distributed: 2.6e-7 of the results' rms with 1152 terms, 3.6e-7
#: with 2304; by vectors 2.9e-7, eager 2.3e-7.
_MAX_TERMS = 1152


@dataclass(frozen=True, slots=True)
class ConvPartition:
    """How a convolution is shared out: panels of ``nr`` output channels by ``mb`` blocks of
    positions, ``depth`` input channels at a time; ``cost``: nanoseconds beside the products."""

    nr: int
    mb: int
    depth: int
    cost: float


def conv_partition(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry
) -> ConvPartition | Declined:
    """How the unit computes a plain convolution."""
    channels, oc = int(x.size[1]), int(weight.size[0])
    if not ctx.device.amx or x.dtype is not torch.float32:
        return Declined("the device has no matrix unit for this dtype")
    if g.transposed or g.groups != 1:
        return Declined("it is transposed or has groups")
    if channels % DEPTH or weight_in_place(weight) is None:
        return Declined(f"{channels} channels, or the weight is not contiguous in memory")
    if not all(is_static(s) for s in (*x.size[2:], *g.sizes)):
        return Declined("its sizes are not known")
    found = planes(g.kernel, g.stride, g.dilation, g.sizes)
    n, taps = ctx.hint(x.size[0]), math.prod(g.kernel)
    costs = matrix_unit_costs(ctx.device)
    part = _partition(costs, ctx.device.compute_units, n, channels, oc, found)
    if part is None:
        return Declined("its operands' parts do not stay in a core's cache")
    positions = n * found.blocks * BLOCK
    pixels = n * math.prod(int(s) for s in g.sizes)
    terms = channels * taps
    by_unit = positions * ceil_div(oc, BLOCK) * BLOCK * terms * costs.by_unit + part.cost
    by_unit += pixels * oc * costs.result
    faster = by_unit < pixels * oc * terms * costs.by_vectors
    return part if faster else Declined("vectors are faster: splitting takes longer than it saves")


class _MatrixConvGiven(TypedDict):
    """The parameters that both templates share."""

    n: Size
    channels: int
    in_sizes: tuple[Size, ...]
    out_sizes: tuple[Size, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    x_offset: Size
    x_strides: tuple[Size, ...]
    acc: str


def conv_by_matrix_unit(
    ctx: LoweringContext,
    part: ConvPartition,
    x: Value,
    weight: Value,
    g: Geometry,
    result_size: tuple[Size, ...],
) -> Value:
    """``x`` (n, c, \\*spatial) in memory with unit stride along channels, ``weight`` contiguous in
    memory."""
    view, kept = strided_view(x), weight_in_place(weight)
    assert view is not None and kept is not None
    stride = [0 if same(s, 1) else t for s, t in zip(view.size, view.stride, strict=True)]
    channels = int(x.size[1])
    given: _MatrixConvGiven = {
        "n": x.size[0], "channels": channels,
        "in_sizes": tuple(x.size[2:]), "out_sizes": g.sizes,
        "kernel": g.kernel, "stride": g.stride, "padding": g.padding, "dilation": g.dilation,
        "x_offset": view.offset, "x_strides": (stride[0], *stride[2:]),
        "acc": "float",
    }  # fmt: skip
    found = planes(g.kernel, g.stride, g.dilation, g.sizes)
    size = (x.size[0], len(found.phases), plane_words(channels, found.positions))
    first = MatrixConvPartsParams(**given)
    parts = ctx.template(MATRIX_CONV_PARTS, torch.int32, size, (0, 1, 2), [x], first)
    params = MatrixConvParams(
        **given, oc=int(weight.size[0]), w_offset=kept.offset,
        nr=part.nr, depth=part.depth, mb=part.mb,
    )  # fmt: skip
    operands, order = [parts, weight, x], channels_last(g.ndim)
    return ctx.template(MATRIX_CONV, torch.float32, result_size, order, operands, params)


def weight_in_place(weight: Value) -> StridedView | None:
    """A contiguous weight (oc, c, \\*kernel) in memory; None for any other."""
    view = strided_view(weight)
    if view is None:
        return None
    dense = contiguous_strides(weight.size)
    fits = all(same(n, 1) or same(s, t) for n, s, t in zip(weight.size, view.stride, dense))
    return view if fits else None


def _partition(
    costs: MatrixUnitCosts, units: int, n: int, channels: int, oc: int, found: Planes
) -> ConvPartition | None:
    """The one that splits at least cost, of those that keep all compute units busy."""
    taps, steps = len(found.taps), channels // DEPTH
    groups, blocks = ceil_div(oc, BLOCK), n * found.blocks
    numbers = n * len(found.phases) * found.positions * channels
    wanted = costs.items_per_unit * units
    most = min(steps, max(1, _MAX_TERMS // (DEPTH * taps)))
    candidates = []
    for panels in range(1, groups + 1):
        width = ceil_div(groups, panels)
        at_once = min(most, costs.max_parts // (width * taps * 2 * STEP))
        if not at_once:
            continue
        at_once = ceil_div(steps, ceil_div(steps, at_once))
        panels = ceil_div(groups, width)
        chunks = min(blocks, ceil_div(wanted, panels))
        if at_once < steps:
            chunks = max(chunks, ceil_div(blocks * width * BLOCK * BLOCK, costs.max_sums))
        mb = ceil_div(blocks, chunks)
        cost = numbers * (costs.convolution_split + costs.convolution_fetch * panels)
        cost += costs.convolution_launch
        cost += channels * taps * oc * costs.split_alone * ceil_div(blocks, mb)
        candidates.append(ConvPartition(width * BLOCK, mb, at_once * DEPTH, cost))
    busy = min(units, groups * blocks)

    def rank(p: ConvPartition) -> tuple[bool, float]:
        return ceil_div(oc, p.nr) * ceil_div(blocks, p.mb) < busy, p.cost

    return min(candidates, key=rank, default=None)
