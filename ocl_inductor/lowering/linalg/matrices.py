"""Batches of small matrices as operands of the templates of linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ocl_inductor.ir.index import Size, is_static, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import full
from ocl_inductor.lowering.core.values import StridedView, Value, reshape, strided_view
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.operators.registry import CannotLower
from ocl_inductor.templates.linalg.factorisations import MOST_ROWS, FactorParams


@dataclass(frozen=True, slots=True)
class Matrices:
    """``batch`` matrices in memory, of static sizes: ``rows`` times ``columns``.

    ``leading``: the dimensions that were flattened to ``batch``. ``view``: None where they have no
    elements; there is nothing to compute with these.
    """

    value: Value  # [batch, rows, columns]
    leading: tuple[Size, ...]
    view: StridedView | None

    @property
    def batch(self) -> Size:
        return self.value.size[0]

    @property
    def rows(self) -> int:
        return int(self.value.size[1])

    @property
    def columns(self) -> int:
        return int(self.value.size[2])

    @property
    def acc(self) -> str:
        return accumulator(self.value.dtype)

    def params(self) -> FactorParams:
        """Which matrices operand 0 of a factorisation has."""
        assert self.view is not None
        batch, row, column = self.view.stride
        return FactorParams(
            batch=self.batch, rows=self.rows, columns=self.columns, acc=self.acc,
            offset=self.view.offset, batch_stride=batch, row_stride=row, column_stride=column,
        )  # fmt: skip


def require_small(x: Value) -> tuple[int, int]:
    """Rows and columns of ``x`` [..., rows, columns] that the kernels take.

    LAPACK on the host is as good for large matrices, of which each has work for a core.

    Raises:
        CannotLower: others.
    """
    rows, columns = x.size[-2:]
    if x.dtype not in (torch.float32, torch.float64):
        raise CannotLower(f"a factorisation of {x.dtype}")
    if not (is_static(rows) and is_static(columns)):
        raise CannotLower("a factorisation of a symbolic number of rows or columns")
    if max(int(rows), int(columns)) > MOST_ROWS:
        raise CannotLower(f"a factorisation of {rows} x {columns} elements: over {MOST_ROWS}")
    return int(rows), int(columns)


def small_matrices(ctx: LoweringContext, x: Value) -> Matrices:
    """``x`` [..., rows, columns] in memory. Raises as :func:`require_small`."""
    rows, columns = require_small(x)
    if any(same(n, 0) for n in x.size):
        size = (prod(x.size[:-2]), rows, columns)
        return Matrices(full(size, 0, x.dtype), x.size[:-2], None)
    value, view = in_memory(ctx, x)
    return Matrices(value, x.size[:-2], view)


def in_memory(ctx: LoweringContext, x: Value) -> tuple[Value, StridedView]:
    """``x`` [..., m, n] as [batch, m, n] with any strides, copied where it has none."""
    flat = reshape(x, (prod(x.size[:-2]), *x.size[-2:]))
    view = strided_view(flat)
    if view is None:
        flat = ctx.realize(flat, (0, 1, 2))
        view = strided_view(flat)
    assert view is not None
    return flat, view


def unflattened(value: Value, leading: Sequence[Size]) -> Value:
    """``value`` [batch, ...] with the dimensions that ``batch`` was made of."""
    return reshape(value, (*leading, *value.size[1:]))


def without_check(check_errors: bool) -> None:
    """PyTorch's functions leave the look at ``info`` to ``_linalg_check_errors``."""
    if check_errors:
        raise CannotLower("a factorisation that raises what its info says")
