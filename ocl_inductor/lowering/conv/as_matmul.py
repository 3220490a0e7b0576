"""Convolutions that are matrix products: windows of one pixel, and windows side by side."""

from __future__ import annotations

import math

from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.index import Size, loop_vars, prod
from ocl_inductor.lowering.conv.geometry import Geometry, channels_first, channels_last
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, permute, reindex, reshape
from ocl_inductor.lowering.matmul.matmul import matmul


def pixel_rows(ctx: LoweringContext, x: Value) -> Value:
    """(n, c, \\*spatial) in memory as a matrix (pixels, c)."""
    order = channels_last(x.ndim - 2)
    rows = permute(ctx.realize(x, order), order)
    return reshape(rows, (prod(rows.size[:-1]), rows.size[-1]))


def as_matmul(
    ctx: LoweringContext, x: Value, weight: Value, result_size: tuple[Size, ...]
) -> Value:
    """A window of one pixel: (pixels, c) times (c, oc)."""
    oc, channels = weight.size[:2]
    product = matmul(ctx, pixel_rows(ctx, x), permute(reshape(weight, (oc, channels)), (1, 0)))
    nd = x.ndim - 2
    product = reshape(product, (result_size[0], *result_size[2:], oc))
    return permute(product, channels_first(nd))


def pixel_shuffle(
    ctx: LoweringContext, x: Value, weight: Value, g: Geometry, result_size: tuple[Size, ...]
) -> Value:
    """Transposed with stride equal to the kernel: each pixel gives a block of its own.

    (pixels, c) times (c, \\*kernel, oc), whose result is viewed as (n, oc, \\*spatial*kernel).
    """
    nd = g.ndim
    channels, oc = int(weight.size[0]), int(weight.size[1])
    taps = permute(weight, (0, *range(2, nd + 2), 1))
    product = matmul(ctx, pixel_rows(ctx, x), reshape(taps, (channels, math.prod(g.kernel) * oc)))
    blocks = reshape(product, (x.size[0], *x.size[2:], *g.kernel, oc))
    variables = loop_vars(nd + 2)
    pixels = [FloorDiv(v, k) for v, k in zip(variables[2:], g.kernel, strict=True)]
    inner = [v - k * p for v, k, p in zip(variables[2:], g.kernel, pixels, strict=True)]
    return reindex(blocks, result_size, [variables[0], *pixels, *inner, variables[1]])
