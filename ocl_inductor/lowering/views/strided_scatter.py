"""Writing through strides: what autograd makes of gradients of ``as_strided``."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ocl_inductor.ir.index import (
    Size,
    as_size,
    contiguous_strides,
    delinearize,
    linear,
    loop_vars,
    prod,
    same,
)
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import static_sizes
from ocl_inductor.lowering.core.values import Value, permute, reshape
from ocl_inductor.lowering.views.as_strided import eager_layout
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


@register(aten.as_strided_scatter.default)
def lower_as_strided_scatter(
    ctx: LoweringContext,
    x: Value,
    src: Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> Value:
    """``x`` with the elements that the strides address replaced by ``src`` (of ``size``).

    ``x`` must be contiguous in eager, and no element may be addressed twice.
    """
    sizes = static_sizes([as_size(s) for s in size], "as_strided_scatter")
    strides = static_sizes([as_size(s) for s in stride], "as_strided_scatter")
    extents = static_sizes(x.size, "as_strided_scatter")
    layout = eager_layout(ctx)
    if layout is None or not all(map(same, layout[0], contiguous_strides(x.size))):
        raise CannotLower("as_strided_scatter into a tensor that is not contiguous in eager")
    if not same(layout[1], 0):
        raise CannotLower("as_strided_scatter into a view")
    offset = static_sizes([0 if storage_offset is None else storage_offset], "an offset")[0]
    total = int(prod(extents))
    if 0 in sizes:
        return x
    # Outermost first; extents of 1 have no place in the order.
    order = sorted((d for d in range(len(sizes)) if sizes[d] != 1), key=lambda d: -strides[d])
    reach = 1
    for d in reversed(order):
        if strides[d] < reach:
            raise CannotLower("as_strided_scatter to elements that overlap")
        reach = (sizes[d] - 1) * strides[d] + reach
    if offset + reach > total:
        raise CannotLower("as_strided_scatter past the tensor's elements")
    if int(prod(sizes)) == total:
        # Every element is replaced: a permuted view of the source.
        ones = [d for d in range(len(sizes)) if sizes[d] == 1]
        return reshape(permute(src, [*ones, *order]), x.size)
    variables = loop_vars(len(sizes))
    position = linear(variables, strides, offset)
    index = delinearize(position, extents)
    return ctx.scatter(x, index, (), src.body, sizes, [], "set")
