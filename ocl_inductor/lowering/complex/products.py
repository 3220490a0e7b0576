"""Products of complex matrices as one product of real ones.

With the parts of ``a`` side by side in its rows, as they lie in memory, and ``b`` written out as
``[[re, im], [-im, re]]`` for each of its elements, the real product of both has the result's parts
side by side in its rows. So operands that lie in memory are read there, the result is written as it
is returned, and only ``b``, usually a weight, is written once more, twice as large.
"""

from __future__ import annotations

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.ir.expr import compare, const, index_value, op, where
from ocl_inductor.ir.index import Size, as_size, loop_vars
from ocl_inductor.lowering.complex.arithmetic import pointwise
from ocl_inductor.lowering.complex.formulas import add, mul
from ocl_inductor.lowering.complex.pairs import (
    Factor,
    Operand,
    as_parts,
    conjugate,
    from_pairs,
    pairs_in_memory,
)
from ocl_inductor.lowering.complex.rules import complex_rule, real, result_dtype
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import ComplexValue, Value, reindex, reshape
from ocl_inductor.operators.registry import CannotLower

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


def _operands(ctx: LoweringContext, *operands: Operand) -> list[ComplexValue]:
    dtype = result_dtype(ctx)
    if not dtype.is_complex:
        raise CannotLower(f"{dtype} of complex numbers")
    return [as_parts(x, dtype.to_real()) for x in operands]


@complex_rule("mm bmm")
def lower_product(ctx: LoweringContext, a: Operand, b: Operand) -> ComplexValue:
    return product(ctx, *_operands(ctx, a, b))


def _scaled_sum(c: ComplexValue, beta: Factor, made: ComplexValue, alpha: Factor) -> ComplexValue:
    if beta == 0:  # NaN in what is added does not count
        return made if alpha == 1 else pointwise(mul, made, alpha)
    return pointwise(
        add,
        c if beta == 1 else pointwise(mul, c, beta),
        made if alpha == 1 else pointwise(mul, made, alpha),
    )


@complex_rule("addmm baddbmm")
def lower_sum_of_product(
    ctx: LoweringContext, c: Operand, a: Operand, b: Operand, *, beta: Factor = 1, alpha: Factor = 1
) -> ComplexValue:
    added, left, right = _operands(ctx, c, a, b)
    return _scaled_sum(added, beta, product(ctx, left, right), alpha)


@complex_rule("addbmm")
def lower_sum_of_products(
    ctx: LoweringContext, c: Operand, a: Operand, b: Operand, *, beta: Factor = 1, alpha: Factor = 1
) -> ComplexValue:
    added, left, right = _operands(ctx, c, a, b)
    made = product(ctx, left, right)
    total = ComplexValue(*(ctx.reduce(x, [0], "sum") for x in (made.re, made.im)))
    return _scaled_sum(added, beta, total, alpha)


def _times_vector(ctx: LoweringContext, a: ComplexValue, x: ComplexValue) -> ComplexValue:
    made = product(ctx, a, ComplexValue(*(reshape(p, (p.size[0], 1)) for p in (x.re, x.im))))
    return ComplexValue(*(reshape(p, (p.size[0],)) for p in (made.re, made.im)))


@complex_rule("mv")
def lower_mv(ctx: LoweringContext, a: Operand, x: Operand) -> ComplexValue:
    return _times_vector(ctx, *_operands(ctx, a, x))


@complex_rule("addmv")
def lower_addmv(
    ctx: LoweringContext, c: Operand, a: Operand, x: Operand, *, beta: Factor = 1, alpha: Factor = 1
) -> ComplexValue:
    added, matrix, vector = _operands(ctx, c, a, x)
    return _scaled_sum(added, beta, _times_vector(ctx, matrix, vector), alpha)


@complex_rule("dot vdot")
def lower_dot(ctx: LoweringContext, a: Operand, b: Operand) -> ComplexValue:
    left, right = _operands(ctx, a, b)
    assert ctx.fx_node is not None
    if ctx.fx_node.target is aten.vdot.default:
        left = conjugate(left)
    terms = pointwise(mul, left, right)
    return ComplexValue(*(ctx.reduce(x, [0], "sum") for x in (terms.re, terms.im)))


@complex_rule("linear")
def lower_linear(
    ctx: LoweringContext, x: Operand, weight: Operand, bias: Operand | None = None
) -> ComplexValue:
    z, w = _operands(ctx, x, weight)
    if w.ndim != 2:
        raise CannotLower("a weight that is a vector")
    rows = ComplexValue(*(reshape(p, (_rows(p), p.size[-1])) for p in (z.re, z.im)))
    right = ComplexValue(*(real(aten.t.default)(ctx, p) for p in (w.re, w.im)))
    made = product(ctx, rows, right)
    size = (*z.size[:-1], w.size[0])
    made = ComplexValue(*(reshape(p, size) for p in (made.re, made.im)))
    if bias is None:
        return made
    return pointwise(add, made, as_parts(bias, made.re.dtype))


def _rows(x: Value) -> Size:
    rows: Size = 1
    for n in x.size[:-1]:
        rows = as_size(rows * n)
    return rows
