"""Gradient of a convolution's weight as products of bfloat16 by the matrix unit.

With both operands in memory as if each had the padded image's rows and columns, the pixels of all
windows for a tap lie one behind the other, and for another tap a fixed number further on. So there
is a product for each tap, of operands that are read in place, over pixels of which some are zeros
in ``coarse``.
"""

from __future__ import annotations

import math

import torch

from ocl_inductor.ir.expr import const, masked
from ocl_inductor.ir.index import is_static, loop_vars
from ocl_inductor.lowering.conv.as_matmul import pixel_rows
from ocl_inductor.lowering.conv.direct import zero_padded
from ocl_inductor.lowering.conv.geometry import WeightGradient
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import all_of, in_bounds
from ocl_inductor.lowering.core.values import Value, permute, reindex, reshape
from ocl_inductor.lowering.matmul.matmul import matmul
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.templates.blocking import ceil_div

#: Terms of a sum at most: a panel of 32 columns takes 512 KiB of a second-level cache then.
_MOST_TERMS = 8192
#: Channels from which tiles of the unit are filled.
_MIN_CHANNELS = 16


def narrow_weight_gradient(ctx: LoweringContext, problem: WeightGradient) -> Value | Declined:
    """The gradient (oc, c, \\*kernel) of operands of bfloat16 in float32."""
    coarse, fine, g = problem.coarse, problem.fine, problem.g
    if not ctx.device.amx or not coarse.dtype == fine.dtype == torch.bfloat16:
        return Declined("the device has no matrix unit for this dtype")
    if g.transposed or g.groups > 1 or any(s != 1 for s in g.stride):
        return Declined("it is transposed, has groups or a stride")
    if not all(is_static(s) for s in (*coarse.size, *fine.size)):
        return Declined("its sizes are not known")
    if min(problem.outer, problem.inner) < _MIN_CHANNELS:
        return Declined(f"{problem.outer} and {problem.inner} channels do not fill its tiles")
    images = int(fine.size[0])
    rows = [int(s) + 2 * p for s, p in zip(fine.size[2:], g.padding, strict=True)]
    steps = [math.prod(rows[d + 1 :]) for d in range(g.ndim)]
    shifts = [d * s for d, s in zip(g.dilation, steps, strict=True)]
    furthest = sum((k - 1) * s for k, s in zip(g.kernel, shifts, strict=True))
    terms = images * math.prod(rows) - furthest
    parts = ceil_div(terms, _MOST_TERMS)
    chunk = ceil_div(terms, parts)
    # Where chunks reach further than the images, there is one more of zeros.
    beyond = parts * chunk + furthest > images * math.prod(rows)
    images += beyond
    if parts * chunk + furthest > images * math.prod(rows):
        return Declined(f"parts of {chunk} pixels reach further than an image")
    total = images * math.prod(rows)
    a = reshape(
        _as_padded(ctx, coarse, images, rows, (0,) * g.ndim, pixels_last=True),
        (coarse.size[1], total),
    )
    if beyond:
        b = reshape(
            _as_padded(ctx, fine, images, rows, g.padding, pixels_last=False), (total, fine.size[1])
        )
    else:
        b = pixel_rows(ctx, zero_padded(ctx, fine, g.padding) if any(g.padding) else fine)
    batch = (parts, *g.kernel)
    part, *taps, i, j = loop_vars(g.ndim + 3)
    left = reindex(a, (*batch, a.size[0], chunk), [i, part * chunk + j])
    first = part * chunk + sum(t * s for t, s in zip(taps, shifts, strict=True))
    right = reindex(b, (*batch, chunk, b.size[1]), [first + i, j])
    product = matmul(ctx, left, right)
    product = (
        reduce_dims(ctx, product, [0], "sum") if parts > 1 else reshape(product, product.size[1:])
    )
    return permute(product, (g.ndim, g.ndim + 1, *range(g.ndim)))


def _as_padded(
    ctx: LoweringContext,
    x: Value,
    images: int,
    rows: list[int],
    padding: tuple[int, ...],
    *,
    pixels_last: bool,
) -> Value:
    """``x`` (n, c, \\*spatial) in memory, from ``padding`` on in each of ``images``, zeros around:

    (c, images, \\*rows) if ``pixels_last``, else (images, \\*rows, c).
    """
    size = (images, x.size[1], *rows)
    variables = loop_vars(len(size))
    ranges = dict(zip(variables, size, strict=True))
    index = [*variables[:2], *(v - p for v, p in zip(variables[2:], padding, strict=True))]
    inside = all_of(in_bounds(w, 0, s, ranges) for w, s in zip(index, x.size, strict=True))
    element = x.at(index)
    if inside is not None:
        element = masked(inside, element, const(0, x.dtype))
    order = (1, 0, *range(2, len(size))) if pixels_last else (0, *range(2, len(size)), 1)
    lying = permute(Value(size, x.dtype, element), order)
    return ctx.pointwise(lying, tuple(range(len(size))))
