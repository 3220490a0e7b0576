"""LU, Cholesky and QR factorisations of small matrices; determinants.

The templates write a row for each matrix, of which results are views: see
:mod:`ocl_inductor.templates.linalg.factorisations`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy
import torch

from ocl_inductor.ir.expr import compare, const, index_value, where
from ocl_inductor.ir.index import Size, loop_vars
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, full
from ocl_inductor.lowering.core.values import Value, reindex, transposed
from ocl_inductor.lowering.linalg.matrices import (
    Matrices,
    small_matrices,
    unflattened,
    without_check,
)
from ocl_inductor.lowering.reduce.reduce import binary, unary
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.templates.linalg import factorisations as templates
from ocl_inductor.templates.linalg.factorisations import FactorParams
from ocl_inductor.templates.spec import TemplateSpec

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class LU:
    """The row of ``lu`` for each matrix: see the template."""

    table: Value
    of: Matrices

    @property
    def steps(self) -> int:
        return min(self.of.rows, self.of.columns)

    def matrix(self) -> Value:
        """``L`` below the diagonal of ``U``: [..., rows, columns]."""
        return table_matrix(self.table, 0, self.of.rows, self.of.columns, self.of.leading)

    def pivots(self) -> Value:
        """Which row each step exchanged with its own, from 1 on: int32 [..., steps]."""
        found = self._numbers(self.of.rows * self.of.columns, self.steps)
        return cast_value(found, torch.int32)

    def order(self) -> Value:
        """Which row of the matrix each row of ``L U`` is, from 0 on, as numbers: [..., rows]."""
        return self._numbers(self.of.rows * self.of.columns + self.steps + 2, self.of.rows)

    def _numbers(self, first: int, count: int) -> Value:
        batch, column = loop_vars(2)
        found = reindex(self.table, (self.of.batch, count), (batch, first + column))
        return unflattened(found, self.of.leading)

    def sign(self) -> Value:
        """1 or -1 for an even or odd number of exchanges: [...]."""
        if self.of.view is None:
            return full(self.of.leading, 1, self.table.dtype)
        return table_number(self.table, self.of.rows * self.of.columns + self.steps, self.of)

    def info(self) -> Value:
        """0, or the first step, from 1 on, whose pivot is zero: int32 [...]."""
        column = self.of.rows * self.of.columns + self.steps + 1
        return cast_value(table_number(self.table, column, self.of), torch.int32)


def table_matrix(
    table: Value, first: int, rows: int, columns: int, leading: tuple[Size, ...]
) -> Value:
    """The matrices that lie in the columns of ``table`` from ``first`` on."""
    b, i, j = loop_vars(3)
    found = reindex(table, (table.size[0], rows, columns), (b, first + columns * i + j))
    return unflattened(found, leading)


def table_number(table: Value, column: int, of: Matrices) -> Value:
    """One column of ``table``: [...]."""
    (b,) = loop_vars(1)
    return unflattened(reindex(table, (of.batch,), (b, sympy.Integer(column))), of.leading)


def factorised(ctx: LoweringContext, a: Value) -> LU:
    """P A = L U of small matrices [..., rows, columns]."""
    of = small_matrices(ctx, a)
    return LU(_table(ctx, templates.LU, of), of)


def _table(
    ctx: LoweringContext,
    spec: TemplateSpec[FactorParams],
    of: Matrices,
    *,
    upper: bool = False,
    q_columns: int = 0,
) -> Value:
    """What the template writes for each matrix: [batch, columns]; nothing where they have no
    elements."""
    if of.view is None:
        return full((of.batch, 0), 0, of.value.dtype)
    params = replace(of.params(), upper=upper, q_columns=q_columns)
    size = spec.out_space(params)
    return ctx.template(spec, of.value.dtype, size, (0, 1), (of.value,), params)


def _triangle(x: Value, *, lower: bool, unit: bool) -> Value:
    """One triangle of ``x`` [..., rows, columns], zeros beside it, ones on a ``unit`` diagonal."""
    *_, row, column = loop_vars(x.ndim)
    i, j = index_value(row, torch.int64), index_value(column, torch.int64)
    inside = compare("ge" if lower else "le", i, j)
    body = where(inside, x.body, const(0, x.dtype))
    if unit:
        body = where(compare("eq", i, j), const(1, x.dtype), body)
    return Value(x.size, x.dtype, body)


def lower_factor(lu: Value) -> Value:
    """``L`` [..., rows, steps] of a table ``L`` below ``U``."""
    rows, columns = lu.size[-2:]
    steps = min(int(rows), int(columns))
    part = reindex(lu, (*lu.size[:-1], steps), loop_vars(lu.ndim))
    return _triangle(part, lower=True, unit=True)


def upper_factor(lu: Value) -> Value:
    """``U`` [..., steps, columns] of a table ``L`` below ``U``."""
    rows, columns = lu.size[-2:]
    steps = min(int(rows), int(columns))
    part = reindex(lu, (*lu.size[:-2], steps, columns), loop_vars(lu.ndim))
    return _triangle(part, lower=False, unit=False)


@register(aten.linalg_lu_factor_ex.default)
def lower_lu_factor(
    ctx: LoweringContext, a: Value, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value]:
    """``L`` below ``U``, pivots and info."""
    if not pivot:
        raise CannotLower("an LU factorisation without pivoting")
    without_check(check_errors)
    lu = factorised(ctx, a)
    return lu.matrix(), lu.pivots(), lu.info()


@register(aten._linalg_det.default)
def lower_det(ctx: LoweringContext, a: Value) -> tuple[Value, Value, Value]:
    """Determinants [...], ``L`` below ``U``, and pivots."""
    lu = _for_determinant(ctx, a)
    diagonal = _diagonal(lu)
    product = ctx.reduce(diagonal, [diagonal.ndim - 1], "prod")
    return binary("mul", product, lu.sign()), lu.matrix(), lu.pivots()


@register(aten._linalg_slogdet.default)
def lower_slogdet(ctx: LoweringContext, a: Value) -> tuple[Value, Value, Value, Value]:
    """Signs and logarithms of the magnitudes of determinants [...], ``L`` below ``U``, pivots."""
    lu = _for_determinant(ctx, a)
    diagonal = _diagonal(lu)
    last = [diagonal.ndim - 1]
    signs = ctx.reduce(unary("sign", diagonal), last, "prod")
    logs = ctx.reduce(unary("log", unary("abs", diagonal)), last, "sum")
    return binary("mul", signs, lu.sign()), logs, lu.matrix(), lu.pivots()


def _for_determinant(ctx: LoweringContext, a: Value) -> LU:
    """The factorisation that eager takes a determinant from: of A^T where A is contiguous.

    Its gradient, which is traced, goes by that.
    """
    assert ctx.fx_node is not None
    traced = ctx.fx_node.args[0].meta["val"]  # type: ignore[union-attr]
    return factorised(ctx, transposed(a) if traced.is_contiguous() else a)


def _diagonal(lu: LU) -> Value:
    matrix = lu.matrix()
    *leading, i = loop_vars(matrix.ndim - 1)
    return reindex(matrix, matrix.size[:-1], (*leading, i, i))


@register(aten.linalg_cholesky_ex.default)
def lower_cholesky(
    ctx: LoweringContext, a: Value, *, upper: bool = False, check_errors: bool = False
) -> tuple[Value, Value]:
    """``L`` (or ``U``) [..., n, n] and info [...]."""
    without_check(check_errors)
    of = small_matrices(ctx, a)
    table = _table(ctx, templates.CHOLESKY, of, upper=upper)
    info = cast_value(table_number(table, of.rows**2, of), torch.int32)
    return table_matrix(table, 0, of.rows, of.rows, of.leading), info


@register(aten.linalg_qr.default)
def lower_qr(ctx: LoweringContext, a: Value, mode: str = "reduced") -> tuple[Value, Value]:
    """``Q`` and ``R``."""
    if mode == "r":
        raise CannotLower("R without Q")
    of = small_matrices(ctx, a)
    q_columns = of.rows if mode == "complete" else min(of.rows, of.columns)
    if q_columns and not of.columns:
        raise CannotLower("a complete Q of matrices without columns")
    table = _table(ctx, templates.QR, of, q_columns=q_columns)
    q = table_matrix(table, 0, of.rows, q_columns, of.leading)
    return q, table_matrix(table, of.rows * q_columns, q_columns, of.columns, of.leading)
