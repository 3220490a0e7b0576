"""Matrix products: the operators, and which kind of kernel computes one."""

from __future__ import annotations

from typing import Any

import torch

from ocl_inductor.ir.expr import const, op
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.core.choose import Declined, Implementation, choose
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, depends_on, from_sums, full
from ocl_inductor.lowering.core.values import (
    ZERO,
    Value,
    expand,
    operation_count,
    permute,
    reindex,
    reshape,
    strided_view,
    transposed,
)
from ocl_inductor.lowering.matmul.bytes_product import are_bytes, product_of_bytes
from ocl_inductor.lowering.matmul.dot_product import dot_product
from ocl_inductor.lowering.matmul.matrix_product import product_by_matrix_unit
from ocl_inductor.lowering.matmul.mma_product import mma_product
from ocl_inductor.lowering.matmul.narrow_product import narrow_product
from ocl_inductor.lowering.matmul.problem import Gemm
from ocl_inductor.lowering.matmul.product_template import product_by_template
from ocl_inductor.lowering.matmul.skinny_gemm import skinny_gemm
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.templates.gemm.skinny_gemm import VERY_FEW

aten = torch.ops.aten

_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
#: Below this many multiplications a generic reduction beats a template with a packed operand.
_TINY_PRODUCT = 2048
#: So many operations are sooner done again than one launch more: about 2 us of a core's vectors.
_RECOMPUTED = 1 << 15


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type products of ``dtype`` accumulate in: half types compute in float32."""
    if dtype in (torch.float16, torch.bfloat16):
        return torch.float32
    return dtype


def binary(name: str, a: Value, b: Value) -> Value:
    """Elementwise ``name`` of two values of one dtype, broadcast against each other."""
    ndim = max(a.ndim, b.ndim)
    sizes_a = (1,) * (ndim - a.ndim) + a.size
    sizes_b = (1,) * (ndim - b.ndim) + b.size
    size = tuple(y if same(x, 1) else x for x, y in zip(sizes_a, sizes_b, strict=True))
    return Value(size, a.dtype, op(name, expand(a, size).body, expand(b, size).body))


def scale(value: Value, factor: Any) -> Value:
    """``value * factor`` for a Python number; exact for 1."""
    if factor == 1:
        return value
    return Value(value.size, value.dtype, op("mul", value.body, const(factor, value.dtype)))


def _check_dtypes(*values: Value) -> torch.dtype:
    dtype = values[0].dtype
    if any(not isinstance(v, Value) for v in values):
        raise CannotLower("an operand lives on the host")
    if any(v.dtype != dtype for v in values):
        raise CannotLower(f"operands of different dtypes: {[str(v.dtype) for v in values]}")
    if dtype not in _FLOATING and dtype not in _INTEGERS:
        raise CannotLower(f"matrix product of {dtype}")
    return dtype


# -- the product --------------------------------------------------------------------------


def matmul(
    ctx: LoweringContext, a: Value, b: Value, out_order: tuple[int, ...] | None = None
) -> Value:
    """(\\*batch, m, k) x (\\*batch, k, n) to (\\*batch, m, n), batch dimensions equal (or 1).

    Floating operands give their compute dtype (float32 for half types: the caller converts after
    its epilogue); integers their own dtype, wrapping. ``out_order`` is the memory order wished for
    (\\*batch, m), outermost first.
    """
    dtype = _check_dtypes(a, b)
    batch = tuple(y if same(x, 1) else x for x, y in zip(a.size[:-2], b.size[:-2], strict=True))
    m, k, n = a.size[-2], a.size[-1], b.size[-1]
    out = compute_dtype(dtype)
    if any(same(s, 0) for s in (*batch, m, n, k)):
        return full((*batch, m, n), 0, out)
    a, b = expand(a, (*batch, m, k)), expand(b, (*batch, k, n))
    work = ctx.hint(prod((*batch, m, n, k)))
    if dtype in _INTEGERS or work <= _TINY_PRODUCT:
        return _product_by_reduction(ctx, a, b, out)
    if batch and not depends_on(b, range(len(batch))):
        flat = _flatten_rows(ctx, a, out)
        if flat is not None:
            one = reindex(b, (k, n), [ZERO] * len(batch) + list(loop_vars(2)))
            return reshape(matmul(ctx, flat, one), (*batch, m, n))
    order = out_order or tuple(range(len(batch) + 1))
    problem = Gemm(a, b, out, order)
    if are_bytes(ctx.device, a, b):
        found = choose(ctx, "gemm", problem, _PRODUCTS_OF_BYTES, "a gemm of floats")
        if found is not None:
            return found
    return choose(ctx, "gemm", problem, _PRODUCTS)


def _flatten_rows(ctx: LoweringContext, a: Value, dtype: torch.dtype) -> Value | None:
    """(\\*batch, m, k) as (batch*m, k) when that costs no copy beyond the one that it needs."""
    flat = reshape(a, (prod(a.size[:-1]), a.size[-1]))
    if strided_view(a) is not None and a.dtype == dtype and strided_view(flat) is None:
        return None
    return flat


def _skinny_transposed(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """C' = B' A' where C has few columns, as ``skinny_gemm`` has few rows."""
    n = problem.b.size[-1]
    if not is_static(n) or int(n) > VERY_FEW:
        return Declined(f"{n} columns are not few")
    other = Gemm(transposed(problem.b), transposed(problem.a), problem.out, problem.order)
    found = skinny_gemm(ctx, other)
    return found if isinstance(found, Declined) else transposed(found)


def _vector_product(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    m, n = problem.a.size[-2], problem.b.size[-1]
    if not same(n, 1) and not same(m, 1):
        return Declined("neither operand is a vector")
    return _product_by_reduction(ctx, problem.a, problem.b, problem.out)


def _by_template(ctx: LoweringContext, problem: Gemm) -> Value:
    return product_by_template(ctx, problem.a, problem.b, problem.out, problem.order)


_PRODUCTS_OF_BYTES = (Implementation("a gemm of bytes", product_of_bytes),)
#: In the order in which they are tried.
_PRODUCTS: tuple[Implementation[Gemm, Value], ...] = (
    Implementation("narrow_gemm", narrow_product),
    Implementation("dot_gemm", dot_product),
    Implementation("mma_gemm", mma_product),
    Implementation("skinny_gemm", skinny_gemm),
    Implementation("skinny_gemm of the transposes", _skinny_transposed),
    Implementation("a reduction", _vector_product),
    Implementation("matrix_gemm", product_by_matrix_unit),
    Implementation("gemm", _by_template),
)


def _product_by_reduction(ctx: LoweringContext, a: Value, b: Value, out: torch.dtype) -> Value:
    """Sum of a broadcast product; K is the innermost dimension."""
    a, b = cast_value(a, out), cast_value(b, out)
    a, b = _computed_once(ctx, a, b.size[-1]), _computed_once(ctx, b, a.size[-2])
    nb = a.ndim - 2
    size = (*a.size[:-1], b.size[-1], a.size[-1])
    variables = loop_vars(nb + 3)
    lead, (i, j, k) = list(variables[:nb]), variables[nb:]
    left = reindex(a, size, [*lead, i, k])
    right = reindex(b, size, [*lead, k, j])
    return reduce_dims(ctx, Value(size, out, op("mul", left.body, right.body)), [nb + 2], "sum")


def _computed_once(ctx: LoweringContext, operand: Value, uses: Size) -> Value:
    """An operand of a reduction, in memory if computing it for each use costs more than a launch.

    Decoding, a layer's row is the product of two others and a sigmoid, and goes into hundreds of
    sums.
    """
    again = ctx.hint(prod(operand.size)) * (ctx.hint(uses) - 1)
    return ctx.realize(operand) if again * operation_count(operand) > _RECOMPUTED else operand


# -- operators ----------------------------------------------------------------------------


def _number(x: object) -> bool:
    return isinstance(x, (int, float))


def _with_addend(
    product: Value, addend: Value, beta: object, alpha: object, dtype: torch.dtype
) -> Value:
    """``beta * addend + alpha * product`` in the compute dtype, then in ``dtype``.

    By PyTorch's rule nothing of ``addend``, not even NaN, gets through where beta is 0.
    """
    if not _number(beta) or not _number(alpha):
        raise CannotLower("beta or alpha is not a number")
    result = scale(product, alpha)
    if beta != 0:
        result = binary("add", result, scale(cast_value(addend, product.dtype), beta))
    return from_sums(result, dtype)


@register(aten.mm.default, aten.bmm.default)
def lower_mm(ctx: LoweringContext, a: Value, b: Value) -> Value:
    return from_sums(matmul(ctx, a, b), a.dtype)


@register(aten.addmm.default, aten.baddbmm.default)
def lower_addmm(
    ctx: LoweringContext, bias: Value, a: Value, b: Value, *, beta: object = 1, alpha: object = 1
) -> Value:
    _check_dtypes(a, b, bias)
    product = matmul(ctx, a, b)
    return _with_addend(product, expand(bias, product.size), beta, alpha, a.dtype)


@register(aten.addbmm.default)
def lower_addbmm(
    ctx: LoweringContext, bias: Value, a: Value, b: Value, *, beta: object = 1, alpha: object = 1
) -> Value:
    """The sum over the batch is one product with batch and k merged."""
    _check_dtypes(a, b, bias)
    batch, m, k = a.size
    left = reshape(permute(a, (1, 0, 2)), (m, prod((batch, k))))
    product = matmul(ctx, left, reshape(b, (prod((batch, k)), b.size[2])))
    return _with_addend(product, expand(bias, product.size), beta, alpha, a.dtype)


def matvec(ctx: LoweringContext, a: Value, x: Value) -> Value:
    column = reshape(x, (x.size[0], 1))
    return reshape(matmul(ctx, a, column), (a.size[0],))


@register(aten.mv.default)
def lower_mv(ctx: LoweringContext, a: Value, x: Value) -> Value:
    _check_dtypes(a, x)
    return from_sums(matvec(ctx, a, x), a.dtype)


@register(aten.addmv.default)
def lower_addmv(
    ctx: LoweringContext, bias: Value, a: Value, x: Value, *, beta: object = 1, alpha: object = 1
) -> Value:
    _check_dtypes(a, x, bias)
    product = matvec(ctx, a, x)
    return _with_addend(product, expand(bias, product.size), beta, alpha, a.dtype)


@register(aten.dot.default, aten.vdot.default)
def lower_dot(ctx: LoweringContext, a: Value, b: Value) -> Value:
    dtype = _check_dtypes(a, b)
    product = matmul(ctx, reshape(a, (1, a.size[0])), reshape(b, (b.size[0], 1)))
    return from_sums(reshape(product, ()), dtype)


@register(aten.linear.default)
def lower_linear(ctx: LoweringContext, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """``x (.., k)`` times ``weight (n, k)`` transposed; weight may be a vector (k)."""
    dtype = _check_dtypes(x, weight) if bias is None else _check_dtypes(x, weight, bias)
    vector = weight.ndim == 1
    if vector:
        weight = reshape(weight, (1, weight.size[0]))
    lead = x.size[:-1]
    rows = reshape(x, (prod(lead), x.size[-1]))
    product = matmul(ctx, rows, permute(weight, (1, 0)))
    product = reshape(product, lead if vector else (*lead, weight.size[0]))
    if bias is not None:
        product = binary("add", product, cast_value(bias, product.dtype))
    return from_sums(product, dtype)
