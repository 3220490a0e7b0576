"""Products of complex matrices as one product of real ones.

With the parts of ``a`` side by side in its rows, as they lie in memory, and ``b`` written out as
``[[re, im], [-im, re]]`` for each of its elements, the real product of both has the result's parts
side by side in its rows. So operands that lie in memory are read there, the result is written as it
is returned, and only ``b``, usually a weight, is written once more, twice as large.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.ir.expr import compare, const, index_value, op, where
from ocl_inductor.ir.index import as_size, loop_vars
from ocl_inductor.lowering.complex.arithmetic import pointwise
from ocl_inductor.lowering.complex.formulas import add, mul
from ocl_inductor.lowering.complex.pairs import as_parts, conjugate, from_pairs, pairs_in_memory
from ocl_inductor.lowering.complex.rules import complex_rule, real, result_dtype
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.registry import CannotLower
from ocl_inductor.lowering.core.values import ComplexValue, Value, reindex, reshape

aten = torch.ops.aten


def written_out(b: ComplexValue) -> Value:
    """``b`` of K x N, or batches of such, as the 2K x 2N matrix that multiplies rows of pairs."""
    *batch, k, n = b.size
    size = (*batch, as_size(2 * k), as_size(2 * n))
    variables = loop_vars(len(size))
    row, column = variables[-2:]
    two = sympy.Integer(2)
    index = [*variables[:-2], FloorDiv(row, two), FloorDiv(column, two)]
    re, im = (reindex(x, size, index).body for x in (b.re, b.im))
    odd_row, odd_column = (
        compare(
            "ne",
            index_value(ModularIndexing(v, sympy.Integer(1), two), torch.int32),
            const(0, torch.int32),
        )
        for v in (row, column)
    )
    below = where(odd_column, re, op("neg", im))
    return Value(size, b.re.dtype, where(odd_row, below, where(odd_column, im, re)))


def product(ctx: LoweringContext, a: ComplexValue, b: ComplexValue) -> ComplexValue:
    """``a @ b`` of matrices or batches of them (of equal sizes)."""
    pairs = pairs_in_memory(ctx, a)
    left = reshape(pairs, (*a.size[:-1], as_size(2 * a.size[-1])))
    right = ctx.realize(written_out(b))
    target = aten.mm.default if a.ndim == 2 else aten.bmm.default
    made = real(target)(ctx, left, right)
    return from_pairs(reshape(made, (*a.size[:-1], b.size[-1], 2)))


def _operands(ctx: LoweringContext, *operands: Any) -> list[ComplexValue]:
    dtype = result_dtype(ctx)
    if not dtype.is_complex:
        raise CannotLower(f"{dtype} of complex numbers")
    return [as_parts(x, dtype.to_real()) for x in operands]


@complex_rule("mm bmm")
def lower_product(ctx: LoweringContext, a: Any, b: Any) -> ComplexValue:
    return product(ctx, *_operands(ctx, a, b))


def _scaled_sum(c: ComplexValue, beta: Any, made: ComplexValue, alpha: Any) -> ComplexValue:
    if beta == 0:  # NaN in what is added does not count
        return made if alpha == 1 else pointwise(mul, made, alpha)
    return pointwise(
        add,
        c if beta == 1 else pointwise(mul, c, beta),
        made if alpha == 1 else pointwise(mul, made, alpha),
    )


@complex_rule("addmm baddbmm")
def lower_sum_of_product(
    ctx: LoweringContext, c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1
) -> ComplexValue:
    c, a, b = _operands(ctx, c, a, b)
    return _scaled_sum(c, beta, product(ctx, a, b), alpha)


@complex_rule("addbmm")
def lower_sum_of_products(
    ctx: LoweringContext, c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1
) -> ComplexValue:
    c, a, b = _operands(ctx, c, a, b)
    made = product(ctx, a, b)
    total = ComplexValue(*(ctx.reduce(x, [0], "sum") for x in (made.re, made.im)))
    return _scaled_sum(c, beta, total, alpha)


def _times_vector(ctx: LoweringContext, a: ComplexValue, x: ComplexValue) -> ComplexValue:
    made = product(ctx, a, ComplexValue(*(reshape(p, (p.size[0], 1)) for p in (x.re, x.im))))
    return ComplexValue(*(reshape(p, (p.size[0],)) for p in (made.re, made.im)))


@complex_rule("mv")
def lower_mv(ctx: LoweringContext, a: Any, x: Any) -> ComplexValue:
    return _times_vector(ctx, *_operands(ctx, a, x))


@complex_rule("addmv")
def lower_addmv(
    ctx: LoweringContext, c: Any, a: Any, x: Any, *, beta: Any = 1, alpha: Any = 1
) -> ComplexValue:
    c, a, x = _operands(ctx, c, a, x)
    return _scaled_sum(c, beta, _times_vector(ctx, a, x), alpha)


@complex_rule("dot vdot")
def lower_dot(ctx: LoweringContext, a: Any, b: Any) -> ComplexValue:
    a, b = _operands(ctx, a, b)
    assert ctx.fx_node is not None
    if ctx.fx_node.target is aten.vdot.default:
        a = conjugate(a)
    terms = pointwise(mul, a, b)
    return ComplexValue(*(ctx.reduce(x, [0], "sum") for x in (terms.re, terms.im)))


@complex_rule("linear")
def lower_linear(ctx: LoweringContext, x: Any, weight: Any, bias: Any = None) -> ComplexValue:
    x, weight = _operands(ctx, x, weight)
    if weight.ndim != 2:
        raise CannotLower("a weight that is a vector")
    rows = ComplexValue(*(reshape(p, (_rows(p), p.size[-1])) for p in (x.re, x.im)))
    right = ComplexValue(*(real(aten.t.default)(ctx, p) for p in (weight.re, weight.im)))
    made = product(ctx, rows, right)
    size = (*x.size[:-1], weight.size[0])
    made = ComplexValue(*(reshape(p, size) for p in (made.re, made.im)))
    if bias is None:
        return made
    return pointwise(add, made, as_parts(bias, made.re.dtype))


def _rows(x: Value) -> Any:
    rows: Any = 1
    for n in x.size[:-1]:
        rows = as_size(rows * n)
    return rows
