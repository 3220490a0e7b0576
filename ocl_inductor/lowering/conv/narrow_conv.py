"""When and how a convolution of bfloat16 goes through the matrix unit
(templates/conv/narrow_conv.py)."""

from __future__ import annotations

import math

import torch

from ocl_inductor.ir.expr import const, masked
from ocl_inductor.ir.index import is_static, loop_vars, prod, same
from ocl_inductor.lowering.conv.dot_conv import with_padding
from ocl_inductor.lowering.conv.geometry import Convolution, channels_first
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import all_of, in_bounds
from ocl_inductor.lowering.core.values import Value, permute, reshape, strided_view
from ocl_inductor.lowering.matmul.narrow_product import NarrowWork, partition_of_panels
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.conv.narrow_conv import NARROW_CONV, NarrowConvParams, steps_of_run
from ocl_inductor.templates.gemm.narrow_gemm import BLOCK, STEP_BYTES
from ocl_inductor.templates.matrix_unit_costs import matrix_unit_costs

#: Terms of a window, and output channels, from which a convolution pays for its tiles.
_MIN_TERMS, _MIN_CHANNELS = 16, 9


def narrow_conv(ctx: LoweringContext, problem: Convolution) -> Value | Declined:
    """The convolution of bfloat16 to float32."""
    x, weight, g, result_size = problem.x, problem.weight, problem.g, problem.size
    if not ctx.device.amx or x.dtype is not torch.bfloat16:
        return Declined("the device has no matrix unit for this dtype")
    if problem.depthwise or g.transposed:
        return Declined("it is depthwise or transposed")
    if not all(is_static(s) for s in (*x.size[1:], *weight.size, *g.sizes)):
        return Declined("its sizes are not known")
    nd, groups = g.ndim, g.groups
    icg, ocg = int(x.size[1]) // groups, int(result_size[1]) // groups
    if math.prod(g.kernel) * icg < _MIN_TERMS or ocg < _MIN_CHANNELS:
        return Declined(f"{icg} channels to {ocg} in a group do not fill its tiles")
    x = with_padding(ctx, x, g, groups * icg)
    view = strided_view(x)
    assert view is not None
    # To (group, oc, *kernel, ic).
    rows = permute(reshape(weight, (groups, ocg, icg, *g.kernel)), (0, 1, *range(3, nd + 3), 2))
    kernel = g.kernel
    if groups == 1 and g.dilation[-1] == 1 and same(view.stride[-1], icg):
        # A row of the window is one run of elements: one tap with more channels.
        kernel, icg = (*kernel[:-1], 1), kernel[-1] * icg
    steps = math.prod(kernel) * steps_of_run(icg, 2)
    pixels = ctx.hint(prod((result_size[0], *g.sizes)))
    kept = ctx.is_kept(weight)
    costs = matrix_unit_costs(ctx.device)
    own = 0.0 if kept else costs.narrow_copied + costs.narrow_transposed
    work = NarrowWork(groups, pixels, steps, ocg)
    part = partition_of_panels(ctx, work, costs.narrow_copied, own)
    if part is None:
        return Declined(f"a panel of {steps} steps does not stay in a core's cache")
    rows = reshape(rows, (groups, ocg, math.prod(kernel), icg))
    weights = _tiles(ctx, rows, part.nr) if kept else ctx.realize(rows, range(rows.ndim))
    params = NarrowConvParams(
        acc="float",
        n=result_size[0],
        in_sizes=tuple(x.size[2:]),
        out_sizes=tuple(int(s) for s in g.sizes),
        groups=groups,
        icg=icg,
        ocg=ocg,
        kernel=kernel,
        stride=g.stride,
        dilation=g.dilation,
        x_offset=view.offset,
        x_strides=(view.stride[0], *(int(s) for s in view.stride[2:])),
        w_layout="tiles" if kept else "rows",
        operands="bfloat16",
        nr=part.nr,
        mb=part.mb,
    )
    size = (prod((result_size[0], *g.sizes)), groups * ocg)
    product = ctx.template(NARROW_CONV, torch.float32, size, (0, 1), [x, weights], params)
    pixels_first = reshape(product, (result_size[0], *g.sizes, groups * ocg))
    return permute(pixels_first, channels_first(nd))


def _tiles(ctx: LoweringContext, rows: Value, nr: int) -> Value:
    """(group, oc, tap, ic) to memory in the order of tiles, zeros behind columns and runs."""
    groups, ocg, taps, icg = map(int, rows.size)
    terms = 4 // rows.dtype.itemsize
    run = steps_of_run(icg, rows.dtype.itemsize)
    depth = STEP_BYTES // rows.dtype.itemsize
    size = (groups, ceil_div(ocg, nr) * nr // BLOCK, taps, run, 2, 16, 16, terms)
    group, block, tap, step, half, word, lane, term = variables = loop_vars(8)
    ranges = dict(zip(variables, size, strict=True))
    column = block * BLOCK + half * 16 + lane
    channel = step * depth + word * terms + term
    inside = [
        in_bounds(index, 0, extent, ranges) for index, extent in ((column, ocg), (channel, icg))
    ]
    element = rows.at([group, column, tap, channel])
    condition = all_of(inside)
    if condition is not None:
        element = masked(condition, element, const(0, rows.dtype))
    return ctx.pointwise(Value(size, rows.dtype, element), tuple(range(8)))
