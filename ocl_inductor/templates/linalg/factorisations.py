"""Factorisations of batches of small matrices: P A = L U, A = U^T U and A = Q R.

A matrix has up to :data:`MOST_ROWS` rows and columns, whose numbers are static. In the vector
profile a work-item takes a matrix, in the simt profile a work-group does, a column to an item,
with the matrix in local memory; small ones have an item there as well. G. H. Golub and C. F. Van
Loan, "Matrix Computations", algorithms 3.4.1 (outer products with partial pivoting), 4.2.4 and
5.2.1; signs, pivots and ``info`` as LAPACK's getrf, potrf and geqrf have them.

Operand 0: ``A``, float32 or float64. The result has a row for each matrix, of these columns:

* ``lu``: ``L`` below the diagonal of ``U``, row by row; the row (from 1) that each step exchanged
  with its own; 1 or -1 for an even or odd number of exchanges; 0, or the first step (from 1) whose
  pivot is zero; for each row of ``L U`` which row of ``A`` it is (from 0);
* ``cholesky``: ``L``, or ``U`` where ``upper``, row by row with zeros beside it; 0, or the order of
  the first leading minor that is not positive. Of ``A`` it reads that triangle alone;
* ``qr``: ``Q`` [rows, q_columns], then ``R`` [q_columns, columns], row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

#: Rows and columns of the largest matrices: three tables of so many in float64 are 24 KiB.
MOST_ROWS = 32
#: Columns from which on a work-group shares a matrix out.
_SHARED = 8
#: Work-items of a group that take a small matrix each.
_GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorParams(TemplateParams):
    """Which matrices operand 0 has: ``batch`` of ``rows`` and ``columns``.

    Where they lie, in elements, static or symbolic: ``offset batch_stride row_stride
    column_stride``. ``upper`` (cholesky): from the upper triangle, and its result is ``U``.
    ``q_columns`` (qr): as many columns has ``Q``, and rows ``R``. ``acc``: ``"float"`` or
    ``"double"``.
    """

    batch: Size
    rows: int
    columns: int
    offset: Size
    batch_stride: Size
    row_stride: Size
    column_stride: Size
    upper: bool = False
    q_columns: int = 0


def _tile(device: DeviceInfo, profile: Profile, p: FactorParams) -> dict[str, object]:
    if profile == "vector":
        return {"group": 1, "team": 1}
    group = min(_GROUP, device.max_work_group_size)
    return {"group": group, "team": group if max(p.rows, p.columns) >= _SHARED else 1}


def _launch(p: FactorParams, tile: Tile) -> LaunchGrid:
    group = tile["group"]
    groups = p.batch if tile["team"] > 1 else size_ceil_div(p.batch, group)
    return LaunchGrid((prod((groups, group)),), (group,))


def _flops(p: FactorParams) -> Size:
    """Of an elimination: two for each element below and right of each step's pivot."""
    steps = range(1, min(p.rows, p.columns) + 1)
    return 2 * sum((p.rows - s) * (p.columns - s) for s in steps) * p.batch


def _lu_reference(a: np.ndarray) -> np.ndarray:
    """``L`` and ``U`` of one matrix in float64, in one table."""
    table = a.astype(np.float64)
    for s in range(min(table.shape)):
        pivot = s + int(np.argmax(np.abs(table[s:, s])))
        table[[s, pivot]] = table[[pivot, s]]
        if table[s, s] != 0:
            table[s + 1 :, s] /= table[s, s]
        table[s + 1 :, s + 1 :] -= np.outer(table[s + 1 :, s], table[s, s + 1 :])
    return table


def _cholesky_reference(a: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.linalg.cholesky(a.astype(np.float64))
    return result


def _qr_reference(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    q, r = np.linalg.qr(a.astype(np.float64))
    return q, r


def _spec(
    name: str,
    columns: Callable[[FactorParams], int],
    reference: Callable[..., Any],
    operations: int,
) -> TemplateSpec[FactorParams]:
    """``columns``: of the result; ``operations``: how many times those of an elimination."""
    return TemplateSpec(
        name=name,
        params=FactorParams,
        file=f"linalg/{name}.cl.jinja",
        out_space=lambda p: (p.batch, columns(p)),
        tile=_tile,
        launch=_launch,
        flops=lambda p: operations * _flops(p),
        bytes=lambda p: p.itemsize * p.batch * (p.rows * p.columns + columns(p)),
        reference=reference,
    )


LU = _spec("lu", lambda p: p.rows * (p.columns + 1) + min(p.rows, p.columns) + 2, _lu_reference, 1)
CHOLESKY = _spec("cholesky", lambda p: p.rows**2 + 1, _cholesky_reference, 1)
QR = _spec("qr", lambda p: p.q_columns * (p.rows + p.columns), _qr_reference, 4)
