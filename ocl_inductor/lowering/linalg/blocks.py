"""Triangular systems of more rows than one kernel takes, block by block.

Half of the rows are solved, what follows from them is subtracted from the other half's right-hand
sides, and these are solved: G. H. Golub and C. F. Van Loan, "Matrix Computations", section 3.1.4.
"""

from __future__ import annotations

from collections.abc import Callable

from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.matmul.matmul import matmul
from ocl_inductor.lowering.reduce.reduce import binary
from ocl_inductor.lowering.views.views import slice_view
from ocl_inductor.templates.linalg.factorisations import MOST_ROWS

#: Rows from which on LAPACK is as good, which has work for a core in each matrix.
MOST_ROWS_IN_BLOCKS = 256

#: Solutions of one triangle [batch, n, n] for right-hand sides [batch, n, k].
Solve = Callable[[Value, Value], Value]


def solved_in_blocks(
    ctx: LoweringContext, a: Value, b: Value, solve: Solve, *, lower: bool
) -> Value:
    """Solutions [batch, n, k] of the ``lower`` or the upper triangle of ``a`` [batch, n, n] for
    ``b`` [batch, n, k]. ``solve``: those of at most MOST_ROWS rows."""
    rows = int(a.size[-1])
    if rows <= MOST_ROWS:
        return solve(a, b)
    half = -(-rows // (2 * MOST_ROWS)) * MOST_ROWS
    upper_part, lower_part = (0, half), (half, rows)
    first, second = (upper_part, lower_part) if lower else (lower_part, upper_part)

    def block(of_rows: tuple[int, int], of_columns: tuple[int, int]) -> Value:
        return slice_view(slice_view(a, 1, *of_rows, 1), 2, *of_columns, 1)

    def solved(part: tuple[int, int], sides: Value) -> Value:
        return solved_in_blocks(ctx, block(part, part), sides, solve, lower=lower)

    known = solved(first, slice_view(b, 1, *first, 1))
    follows = matmul(ctx, block(second, first), known)
    rest = solved(second, binary("sub", slice_view(b, 1, *second, 1), follows))
    return ctx.concatenate([known, rest] if lower else [rest, known], 1)
