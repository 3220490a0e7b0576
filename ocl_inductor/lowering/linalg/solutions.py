"""Solutions of linear systems with small matrices, and their inverses.

Each of them is one or two triangular systems, perhaps with exchanges of rows: see
:mod:`ocl_inductor.templates.linalg.substitution`. A system whose matrix is on the right,
X A = B, is solved as A^T X^T = B^T.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from ocl_inductor.ir.expr import compare, const, index_value, where
from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import broadcast_sizes, full
from ocl_inductor.lowering.core.values import Value, expand, reshape, strided_view, transposed
from ocl_inductor.lowering.linalg.blocks import MOST_ROWS_IN_BLOCKS, solved_in_blocks
from ocl_inductor.lowering.linalg.factorisations import (
    LU,
    factorised,
    lower_factor,
    upper_factor,
)
from ocl_inductor.lowering.linalg.matrices import (
    Matrices,
    in_memory,
    require_small,
    small_matrices,
    unflattened,
    without_check,
)
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.templates.linalg.factorisations import MOST_ROWS
from ocl_inductor.templates.linalg.substitution import (
    ROW_ORDER,
    SUBSTITUTION,
    RowOrderParams,
    SubstitutionParams,
)

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Triangle:
    """A system of one triangle of a matrix, or of the matrix transposed.

    ``lower`` says which triangle it is after the transposition.
    """

    lower: bool
    unit: bool = False
    transpose: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """Which row of the right-hand sides, or of the solutions, each row of the systems is.

    ``rows`` [batch, n]: from 0 on, of any dtype.
    """

    rows: Value
    when: Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class _Factorised:
    """``lu``, ``L`` below ``U``, and which row of A each of its rows is [batch, n]."""

    lu: Matrices
    rows: Value


def _ordered(ctx: LoweringContext, rows: Value) -> tuple[Value, tuple[Size, Size]]:
    """``rows`` [batch, n] as operand 2 of the template, and where it lies."""
    view = strided_view(rows)
    if view is None or not same(view.stride[1], 1):
        rows = ctx.pointwise(rows, (0, 1))
        view = strided_view(rows)
    assert view is not None
    return rows, (view.offset, view.stride[0])


def _order_of(ctx: LoweringContext, pivots: Value, rows: int) -> Value:
    """The order [..., rows] that exchanges ``pivots`` [..., steps] lead to."""
    leading, steps = pivots.size[:-1], pivots.size[-1]
    if any(same(n, 0) for n in pivots.size):
        return full((*leading, rows), 0, torch.float32)
    given = ctx.realize(reshape(pivots, (prod(leading), steps)))
    view = strided_view(given)
    assert view is not None
    batch, step = view.stride
    params = RowOrderParams(
        batch=given.size[0], rows=rows, steps=int(steps), offset=view.offset, batch_stride=batch,
        step_stride=step, acc="float",
    )  # fmt: skip
    size = (given.size[0], rows)
    order = ctx.template(ROW_ORDER, torch.float32, size, (0, 1), (given,), params)
    return unflattened(order, leading)


def _solved(
    ctx: LoweringContext,
    a: Matrices,
    triangles: tuple[Triangle, ...],
    b: Value | None,
    order: Order | None = None,
) -> Value:
    """Solutions [batch, n, k] of ``triangles`` of ``a``: the first for ``b`` [batch, n, k], or for
    the identity where it is None, each other one for the solution before it."""
    columns = a.rows if b is None else b.size[2]
    size = (a.batch, a.rows, columns)
    if any(same(n, 0) for n in size):
        return full(size, 0, a.value.dtype)
    assert a.view is not None
    batch, row, column = a.view.stride
    sides, lies = a.value, None
    if b is not None:
        sides, view = in_memory(ctx, b)
        per_batch, per_row, per_column = view.stride
        lies = (view.offset, per_batch, per_row, per_column)
    operands = [a.value, sides]
    where: tuple[Size, Size] = (0, 0)
    if order is not None:
        rows, where = _ordered(ctx, order.rows)
        operands.append(rows)
    params = SubstitutionParams(
        batch=a.batch, rows=a.rows, columns=columns, offset=a.view.offset,
        batch_stride=batch, sides=lies, acc=a.acc,
        triangles=tuple(
            (t.lower, t.unit, column, row) if t.transpose else (t.lower, t.unit, row, column)
            for t in triangles
        ),
        reordered=None if order is None else order.when, order=where,
    )  # fmt: skip
    return ctx.template(SUBSTITUTION, a.value.dtype, size, (0, 1, 2), operands, params)


def _permutation(order: Value, dtype: torch.dtype) -> Value:
    """``P`` [..., n, n] with A = P L U, given the order [..., n]."""
    n = order.size[-1]
    *leading, row, column = loop_vars(order.ndim + 1)
    here = compare("eq", order.at((*leading, column)), index_value(row, order.dtype))
    return Value((*order.size, n), dtype, where(here, const(1, dtype), const(0, dtype)))


def _solved_by_lu(
    ctx: LoweringContext, of: _Factorised, b: Value | None, *, adjoint: bool
) -> Value:
    """Solutions [batch, n, k] of A X = B, or A^T X = B where ``adjoint``."""
    if adjoint:
        systems = (Triangle(True, transpose=True), Triangle(False, unit=True, transpose=True))
        return _solved(ctx, of.lu, systems, b, Order(of.rows, "after"))
    systems = (Triangle(True, unit=True), Triangle(False))
    return _solved(ctx, of.lu, systems, b, Order(of.rows, "before"))


def _for_leading(
    ctx: LoweringContext, lu: Value, rows: Value, leading: tuple[Size, ...]
) -> _Factorised:
    """``lu`` [..., n, n] and the order ``rows`` [..., n] for each matrix of ``leading``."""
    matrices = small_matrices(ctx, expand(lu, (*leading, *lu.size[-2:])))
    n = rows.size[-1]
    return _Factorised(matrices, reshape(expand(rows, (*leading, n)), (prod(leading), n)))


def _own(ctx: LoweringContext, lu: LU, leading: tuple[Size, ...]) -> _Factorised:
    """A factorisation just made, read where it lies."""
    return _for_leading(ctx, lu.matrix(), lu.order(), leading)


def _sides_solved(
    ctx: LoweringContext, of: _Factorised, b: Value, leading: tuple[Size, ...], *, left: bool,
    adjoint: bool,
) -> Value:  # fmt: skip
    """Solutions [..., n, k] of op(A) X = B, or [..., k, n] of X op(A) = B."""
    sides = expand(b, (*leading, *b.size[-2:]))
    if not left:
        sides, adjoint = transposed(sides), not adjoint
    flat = reshape(sides, (prod(leading), *sides.size[-2:]))
    x = unflattened(_solved_by_lu(ctx, of, flat, adjoint=adjoint), leading)
    return x if left else transposed(x)


@register(aten.linalg_inv_ex.default)
def lower_inv(ctx: LoweringContext, a: Value, *, check_errors: bool = False) -> tuple[Value, Value]:
    """Inverses [..., n, n] and info [...]."""
    without_check(check_errors)
    lu = factorised(ctx, a)
    leading = lu.of.leading
    inverse = _solved_by_lu(ctx, _own(ctx, lu, leading), None, adjoint=False)
    return unflattened(inverse, leading), lu.info()


@register(aten._linalg_solve_ex.default)
def lower_solve(
    ctx: LoweringContext, a: Value, b: Value, *, left: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value, Value]:
    """Solutions of A X = B, or X A = B; of A: ``L`` below ``U``, pivots, info."""
    without_check(check_errors)
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and all(map(same, b.size, a.size[:-1])))
    sides = reshape(b, (*b.size, 1)) if vector else b
    lu = factorised(ctx, a)
    leading = broadcast_sizes((a.size[:-2], sides.size[:-2]))
    of = _own(ctx, lu, leading)
    x = _sides_solved(ctx, of, sides, leading, left=left or vector, adjoint=False)
    return reshape(x, x.size[:-1]) if vector else x, lu.matrix(), lu.pivots(), lu.info()


@register(aten.linalg_lu_solve.default)
def lower_lu_solve(
    ctx: LoweringContext, lu: Value, pivots: Value, b: Value, *, left: bool = True,
    adjoint: bool = False,
) -> Value:  # fmt: skip
    """Solutions of systems whose factorisations are operands."""
    _of_one_dtype(lu, b)
    leading = broadcast_sizes((lu.size[:-2], b.size[:-2]))
    rows, _ = require_small(lu)
    of = _for_leading(ctx, lu, _order_of(ctx, pivots, rows), leading)
    return _sides_solved(ctx, of, b, leading, left=left, adjoint=adjoint)


@register(aten.linalg_lu.default)
def lower_lu(ctx: LoweringContext, a: Value, *, pivot: bool = True) -> tuple[Value, Value, Value]:
    """``P``, ``L`` and ``U`` with A = P L U."""
    if not pivot:
        raise CannotLower("an LU factorisation without pivoting")
    lu = factorised(ctx, a)
    p = _permutation(lu.order(), a.dtype)
    return p, lower_factor(lu.matrix()), upper_factor(lu.matrix())


@register(aten.lu_unpack.default)
def lower_lu_unpack(
    ctx: LoweringContext, lu: Value, pivots: Value, unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """``P``, ``L`` and ``U`` of a factorisation; what is not asked for is empty."""
    rows, _ = require_small(lu)
    p = low = high = full((0,), 0, lu.dtype)
    if unpack_pivots:
        p = _permutation(_order_of(ctx, pivots, rows), lu.dtype)
    if unpack_data:
        low, high = lower_factor(lu), upper_factor(lu)
    return p, low, high


def _of_one_dtype(a: Value, b: Value) -> None:
    if a.dtype is not b.dtype:
        raise CannotLower(f"a system of {a.dtype} and {b.dtype}")


def _solved_by_triangles(
    ctx: LoweringContext, a: Value, b: Value, triangles: tuple[Triangle, ...]
) -> Value:
    """Solutions [..., n, k] of ``triangles`` of ``a`` [..., n, n] for ``b`` [..., n, k]."""
    _of_one_dtype(a, b)
    leading = broadcast_sizes((a.size[:-2], b.size[:-2]))
    a = expand(a, (*leading, *a.size[-2:]))
    sides = reshape(expand(b, (*leading, *b.size[-2:])), (prod(leading), *b.size[-2:]))
    rows = a.size[-1]
    if is_static(rows) and MOST_ROWS < int(rows) <= MOST_ROWS_IN_BLOCKS:
        return unflattened(_solved_in_blocks(ctx, a, sides, triangles), leading)
    return unflattened(_solved(ctx, small_matrices(ctx, a), triangles, sides), leading)


def _solved_in_blocks(
    ctx: LoweringContext, a: Value, sides: Value, triangles: tuple[Triangle, ...]
) -> Value:
    if a.dtype not in (torch.float32, torch.float64):
        raise CannotLower(f"a system of {a.dtype}")
    if any(same(n, 0) for n in sides.size):
        return full(sides.size, 0, a.dtype)
    matrices, _ = in_memory(ctx, a)
    for triangle in triangles:
        whole = transposed(matrices) if triangle.transpose else matrices
        as_it_lies = replace(triangle, transpose=False)

        def solve(a: Value, b: Value, part: Triangle = as_it_lies) -> Value:
            return _solved(ctx, small_matrices(ctx, a), (part,), b)

        sides = solved_in_blocks(ctx, whole, sides, solve, lower=triangle.lower)
    return sides


@register(aten.linalg_solve_triangular.default)
def lower_solve_triangular(
    ctx: LoweringContext, a: Value, b: Value, *, upper: bool, left: bool = True,
    unitriangular: bool = False,
) -> Value:  # fmt: skip
    """Solutions of A X = B, or X A = B, for the upper or lower triangle of A."""
    triangle = Triangle(not upper, unitriangular)
    if left:
        return _solved_by_triangles(ctx, a, b, (triangle,))
    triangle = replace(triangle, lower=upper, transpose=True)
    return transposed(_solved_by_triangles(ctx, a, transposed(b), (triangle,)))


@register(aten.triangular_solve.default)
def lower_triangular_solve(
    ctx: LoweringContext, b: Value, a: Value, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Value, Value]:  # fmt: skip
    """Solutions of A X = B or A^T X = B, and A."""
    triangle = Triangle(upper if transpose else not upper, unitriangular, transpose)
    x = _solved_by_triangles(ctx, a, b, (triangle,))
    return x, expand(a, (*x.size[:-2], *a.size[-2:]))


def _of_cholesky(upper: bool) -> tuple[Triangle, Triangle]:
    """The systems of L L^T, given L, or U where ``upper``."""
    if upper:
        return Triangle(True, transpose=True), Triangle(False)
    return Triangle(True), Triangle(False, transpose=True)


@register(aten.cholesky_solve.default)
def lower_cholesky_solve(
    ctx: LoweringContext, b: Value, factor: Value, upper: bool = False
) -> Value:
    """Solutions of A X = B, given the Cholesky factor of A."""
    return _solved_by_triangles(ctx, factor, b, _of_cholesky(upper))


@register(aten.cholesky_inverse.default)
def lower_cholesky_inverse(ctx: LoweringContext, factor: Value, upper: bool = False) -> Value:
    """Inverses of matrices, given their Cholesky factors."""
    matrices = small_matrices(ctx, factor)
    return unflattened(_solved(ctx, matrices, _of_cholesky(upper), None), matrices.leading)
