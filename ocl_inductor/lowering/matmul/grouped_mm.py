"""Products of groups of rows with a matrix each: the experts of a mixture."""

from __future__ import annotations

import torch

from ocl_inductor.ir.index import same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, full
from ocl_inductor.lowering.core.values import Value, strided_view, transposed
from ocl_inductor.lowering.matmul.matmul import binary, compute_dtype, matmul
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.operators.registry import CannotLower, register, register_by_name
from ocl_inductor.templates.blocking import lanes_of
from ocl_inductor.templates.gemm.grouped_gemm import GROUPED, GroupedParams
from ocl_inductor.templates.gemm.grouped_terms import GROUPED_TERMS

aten = torch.ops.aten

_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def grouped_product(ctx: LoweringContext, a: Value, b: Value, ends: Value) -> Value:
    """(m, k) x (groups, k, n) to (m, n), in the compute dtype.

    Rows from ``ends[e - 1]`` up to ``ends[e]`` are multiplied by ``b[e]``; those behind the last
    of ``ends`` (integers) become 0.
    """
    _check(a, b, ends)
    (m, k), (groups, _, n), out = a.size, b.size, compute_dtype(a.dtype)
    if any(same(s, 0) for s in (m, k, n, groups)):
        return full((m, n), 0, out)
    operands = [ctx.realize(a), ctx.realize(b), ctx.realize(ends, (0,))]
    x, w, _ = (strided_view(v) for v in operands)
    assert x is not None and w is not None
    acc = accumulator(out)
    params = GroupedParams(
        m=m, n=n, k=k, groups=groups,
        a_offset=x.offset, a_strides=x.stride, b_offset=w.offset, b_strides=w.stride,
        lanes=lanes_of(ctx.device, acc), acc=acc,
    )  # fmt: skip
    return ctx.template(GROUPED, out, (m, n), (0, 1), operands, params)


def product_of_groups(ctx: LoweringContext, a: Value, b: Value, ends: Value) -> Value:
    """(m, k) x (k, n) to (groups, m, n), in the compute dtype.

    Matrix e is the product of the terms from ``ends[e - 1]`` up to ``ends[e]`` (integers).
    """
    _check(a, b, ends)
    (m, k), (_, n), (groups,), out = a.size, b.size, ends.size, compute_dtype(a.dtype)
    if any(same(s, 0) for s in (m, k, n, groups)):
        return full((groups, m, n), 0, out)
    operands = [ctx.realize(a), _in_rows(ctx, b), ctx.realize(ends, (0,))]
    x, w, _ = (strided_view(v) for v in operands)
    assert x is not None and w is not None
    acc = accumulator(out)
    params = GroupedParams(
        m=m, n=n, k=k, groups=groups,
        a_offset=x.offset, a_strides=x.stride, b_offset=w.offset, b_strides=w.stride,
        lanes=lanes_of(ctx.device, acc), acc=acc,
    )  # fmt: skip
    return ctx.template(GROUPED_TERMS, out, (groups, m, n), (0, 1, 2), operands, params)


def _in_rows(ctx: LoweringContext, value: Value) -> Value:
    """A matrix in memory whose rows are vectors."""
    view = strided_view(value)
    in_rows = view is not None and same(view.stride[1], 1)
    return value if in_rows else ctx.realize(value, (0, 1))


def _check(a: Value, b: Value, ends: Value) -> None:
    if a.dtype not in _FLOATING or b.dtype != a.dtype:
        raise CannotLower(f"grouped product of {a.dtype} and {b.dtype}")
    if ends.dtype not in (torch.int32, torch.int64):
        raise CannotLower(f"groups that end at {ends.dtype}")


@register(aten._grouped_mm.default)
def lower_grouped_mm(
    ctx: LoweringContext,
    a: Value,
    b: Value,
    offs: Value | None = None,
    bias: Value | None = None,
    out_dtype: torch.dtype | None = None,
) -> Value:
    """Groups of the rows of ``a`` (2-d) with the matrices of ``b`` (3-d), or of the columns of
    ``b`` with the matrices of ``a``; of the terms of two 2-d tensors; two 3-d tensors make a
    product of batches. What is behind the last group is undefined in eager.
    """
    if a.ndim == 3 and b.ndim == 3:
        product = matmul(ctx, a, b)
    elif offs is None:
        raise CannotLower("groups without ends")
    elif a.ndim == 2 and b.ndim == 3:
        product = grouped_product(ctx, a, b, offs)
    elif a.ndim == 3:
        product = transposed(grouped_product(ctx, transposed(b), transposed(a), offs))
    else:
        product = product_of_groups(ctx, a, b, offs)
    if bias is not None:
        product = binary("add", product, cast_value(bias, product.dtype))
    return cast_value(product, out_dtype or a.dtype)


@register_by_name("transformers.grouped_mm_fallback.default")
def lower_grouped_mm_fallback(
    ctx: LoweringContext, input: Value, weight: Value, offs: Value
) -> Value:
    """The same in transformers, for every dtype; rows behind the last group are 0."""
    return cast_value(grouped_product(ctx, input, weight, offs), input.dtype)


@register_by_name("transformers.grouped_mm_fallback_backward.default")
def lower_grouped_mm_fallback_backward(
    ctx: LoweringContext, input: Value, weight: Value, offs: Value, grad_output: Value
) -> tuple[Value, Value]:
    """Gradients for rows and matrices; that of rows behind the last group is 0."""
    for_input = grouped_product(ctx, grad_output, transposed(weight), offs)
    for_weight = product_of_groups(ctx, transposed(input), grad_output, offs)
    return cast_value(for_input, input.dtype), cast_value(for_weight, weight.dtype)
