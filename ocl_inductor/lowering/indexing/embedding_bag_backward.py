"""Gradients of bags of rows of an embedding, of the rows and of the weights of the indices."""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import cast, compare, const, index_value, op, where
from ocl_inductor.ir.index import Size, as_size, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import as_coordinate, element, in_memory
from ocl_inductor.lowering.core.shapes import cast_value, full, reused
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.indexing.embedding_bag import (
    MAX,
    MEAN,
    SUM,
    Term,
    bags_of,
    beginnings,
    last_bag_ends,
    sizes_of_bags,
)
from ocl_inductor.lowering.indexing.scatter import scatter_points
from ocl_inductor.lowering.reduce.reduce import accumulation_dtype, reduce_dims
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


@register(aten._embedding_bag_backward.default)
def lower_embedding_bag_backward(
    ctx: LoweringContext,
    grad: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    bag_size: Value,
    maximum_indices: Value,
    num_weights: Size,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Value | None,
    padding_idx: int = -1,
) -> Value:
    """``[num_weights, width]``: each index adds its bag's gradient to its row."""
    if sparse:
        raise CannotLower("sparse gradients")
    if scale_grad_by_freq:
        # The CPU kernel divides by how often *another* index occurs: the k-th of the sorted
        # indices for the k-th distinct one. Its numbers are the contract.
        raise CannotLower("scale_grad_by_freq, where eager's gradient is peculiar to it")
    size = (as_size(num_weights), grad.size[1])
    dtype = accumulation_dtype(grad.dtype)
    if any(same(s, 0) for s in (*grad.size, *indices.size, *size)):
        return full(size, 0, grad.dtype)
    grad = ctx.realize(grad)
    if mode == MAX:
        row, column = loop_vars(2)
        filled = compare("gt", bag_size.at([row]), const(0, bag_size.dtype))
        value = where(filled, cast(grad.body, dtype), const(0, dtype))
        to = as_coordinate(maximum_indices.body, size[0], {}, wrap=False)
        base = full(size, 0, dtype)
        return cast_value(
            scatter_points(ctx, base, grad.size, [to, column], value, [0], "sum"), grad.dtype
        )
    bags = bags_of(ctx, indices, beginnings(offsets, grad.size[0]), grad.size[0], padding_idx)
    i, column = loop_vars(2)
    bag = cast(bags.bag.at([i]), torch.int64)
    value, nothing = cast(element(grad, [bag, column]), dtype), const(0, dtype)
    if per_sample_weights is not None:
        value = op("mul", value, cast(per_sample_weights.at([i]), dtype))
    if mode == MEAN:
        of = reused(ctx, sizes_of_bags(ctx, bags))
        count = element(in_memory(ctx, of), [bag])
        value = op("div", value, cast(op("maximum", count, const(1, torch.int64)), dtype))
    if padding_idx >= 0:
        value = where(bags.counts(i), value, nothing)
    closed = same(offsets.size[0], bags.count + 1)
    if closed and mode == SUM and last_bag_ends(grad.dtype, mode, padding_idx):
        end = element(in_memory(ctx, offsets), [as_size(bags.count)])
        value = where(compare("lt", index_value(i), cast(end, torch.int64)), value, nothing)
    base = full(size, 0, dtype)
    lattice = (bags.n, size[1])
    to = bags.row(i, size[0])
    return cast_value(
        scatter_points(ctx, base, lattice, [to, column], value, [0], "sum"), grad.dtype
    )


@register(aten._embedding_bag_per_sample_weights_backward.default)
def lower_embedding_bag_weights_backward(
    ctx: LoweringContext,
    grad: Value,
    weight: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    mode: int,
    padding_idx: int = -1,
) -> Value:
    """``[n]``: each index's row times its bag's gradient."""
    if any(same(s, 0) for s in (*grad.size, *indices.size, *weight.size)):
        return full(indices.size, 0, grad.dtype)
    bags = bags_of(ctx, indices, beginnings(offsets, grad.size[0]), grad.size[0], padding_idx)
    grad = ctx.realize(grad)
    term = Term(bags, in_memory(ctx, weight), None, 0.0)
    i, column = loop_vars(2)
    bag = cast(bags.bag.at([i]), torch.int64)
    product = op("mul", term.at(i, column), cast(element(grad, [bag, column]), term.dtype))
    products = Value((bags.n, weight.size[1]), term.dtype, product)
    return cast_value(reduce_dims(ctx, products, [1], "sum"), grad.dtype)
