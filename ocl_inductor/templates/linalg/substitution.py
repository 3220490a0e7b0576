"""Solutions of triangular systems with one or more right-hand sides, for small matrices.

A work-item takes ``W`` columns of right-hand sides of one matrix through all systems: nothing in
one column depends on another. Forward and back substitution by rows: G. H. Golub and C. F. Van
Loan, "Matrix Computations", algorithms 3.1.1 and 3.1.2.

Operands: 0: the matrix whose triangles are the systems', float32 or float64, if there are any; 1:
the right-hand sides ``B``, unless ``identity``; 2: for each row of the systems the row of ``B`` or
``X`` that it is, from 0 on, of any dtype. Any buffer serves as an operand that is not read. The
result is ``X`` [batch, rows, columns].

``row_order`` makes operand 2 of LAPACK's pivots, its operand 0 [batch, steps]: the row (from 1)
that each step exchanged with its own. The result is [batch, rows]. A pivot out of range counts as
the nearest one inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.ir.params import TemplateParams
from ocl_inductor.templates.blocking import lanes_of, size_ceil_div
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

_SIMT_GROUP = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SubstitutionParams(TemplateParams):
    """Sizes and strides in elements, static or symbolic.

    ``batch rows columns``: of ``X``; the number of rows is at most
    :data:`~ocl_inductor.templates.linalg.factorisations.MOST_ROWS`. ``triangles``: of each system
    ``(lower, unit, row_stride, column_stride)``, in the order in which they are solved; ``offset
    batch_stride`` of their matrix. ``sides``: offset and the three strides of ``B``, or None for
    the identity. ``reordered``: operand 2 is about rows of ``B``, ``"before"`` the systems, or of
    ``X``, ``"after"`` them, or there is none; ``order``: its offset and the stride of its rows.
    ``acc``: ``"float"`` or ``"double"``.
    """

    batch: Size
    rows: int
    columns: Size
    triangles: tuple[tuple[bool, bool, Size, Size], ...]
    offset: Size
    batch_stride: Size
    sides: tuple[Size, Size, Size, Size] | None
    reordered: Literal["before", "after"] | None = None
    order: tuple[Size, Size] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrderParams(TemplateParams):
    """``batch`` and ``rows`` of the result, ``steps`` of the pivots. Where these lie, in elements:
    ``offset batch_stride step_stride``."""

    batch: Size
    rows: int
    steps: int
    offset: Size
    batch_stride: Size
    step_stride: Size


def _tile(device: DeviceInfo, profile: Profile, p: SubstitutionParams) -> dict[str, object]:
    if profile == "simt":
        return {"group": min(_SIMT_GROUP, device.max_work_group_size), "W": 1}
    lanes = lanes_of(device, p.acc)
    # Where the number of columns is symbolic there may be one.
    most = int(p.columns) if is_static(p.columns) else 1
    while lanes > most:
        lanes //= 2
    return {"group": 1, "W": lanes}


def _launch(p: SubstitutionParams, tile: Tile) -> LaunchGrid:
    group = tile["group"]
    items = prod((p.batch, size_ceil_div(p.columns, tile["W"])))
    return LaunchGrid((size_ceil_div(items, group) * group,), (group,))


def _space(p: SubstitutionParams) -> tuple[Size, ...]:
    return (p.batch, p.rows, p.columns)


def _bytes(p: SubstitutionParams) -> Size:
    return p.itemsize * (2 * prod(_space(p)) + p.batch * p.rows**2)


def _reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of one system, in float64."""
    result: np.ndarray = np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
    return result


def _order_reference(pivots: np.ndarray, rows: int) -> np.ndarray:
    """Of one matrix."""
    order = np.arange(rows)
    for step, pivot in enumerate(pivots):
        order[[step, pivot - 1]] = order[[pivot - 1, step]]
    return order


ROW_ORDER = TemplateSpec(
    name="row_order",
    params=RowOrderParams,
    file="linalg/row_order.cl.jinja",
    out_space=lambda p: (p.batch, p.rows),
    tile=lambda device, profile, p: {
        "group": 1 if profile == "vector" else min(_SIMT_GROUP, device.max_work_group_size)
    },
    launch=lambda p, tile: LaunchGrid(
        (prod((size_ceil_div(p.batch, tile["group"]), tile["group"])),), (tile["group"],)
    ),
    flops=lambda p: p.batch * p.steps,
    bytes=lambda p: p.batch * 4 * (p.steps + 3 * p.rows),
    reference=_order_reference,
    reads_result=True,
)
SUBSTITUTION = TemplateSpec(
    name="substitution",
    params=SubstitutionParams,
    file="linalg/substitution.cl.jinja",
    out_space=_space,
    tile=_tile,
    launch=_launch,
    flops=lambda p: len(p.triangles) * prod(_space(p)) * p.rows,
    bytes=_bytes,
    reference=_reference,
)
