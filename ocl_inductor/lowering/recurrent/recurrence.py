"""Recurrent layers by templates: see :mod:`ocl_inductor.templates.recurrent.recurrence`."""

from __future__ import annotations

from typing import TypedDict

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.index import Size, is_static, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import full
from ocl_inductor.lowering.core.values import (
    StridedView,
    Value,
    reindex,
    strided_view,
)
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.operators.recurrence import RECURRENCE, RECURRENCE_BACKWARD
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.recurrent.recurrence import (
    CELLS,
    RECURRENCE_GRADIENT,
    Panel,
    RecurrenceGradientParams,
    RecurrenceParams,
    choose_panel,
    panel_width,
    planes,
)
from ocl_inductor.templates.recurrent.recurrence import (
    RECURRENCE as FORWARD,
)


@register(RECURRENCE)
def lower_recurrence(
    ctx: LoweringContext,
    x: Value,
    weight: Value,
    bias: Value | None,
    h: Value,
    c: Value | None,
    cell: str,
    reverse: bool,
    saves: bool,
) -> tuple[Value, Value, Value]:
    """All ``h`` [T, N, H], the last ``c`` [N, H] and the tables; see ``operators.py``."""
    steps, batch, hidden = *x.size[:2], weight.size[1]
    given = _given(ctx, x, batch, hidden, cell, reverse, CELLS[cell].gates)
    x, where = _with_unit_stride(ctx, x)
    operands = [x, _packed_by_units(ctx, weight, given["panel"], cell), ctx.realize(h, (0, 1))]
    if c is not None:
        operands.append(ctx.realize(c, (0, 1)))
    elif bias is not None:
        operands.append(ctx.realize(bias, (0,)))
    size = (planes(cell, saves), steps + 1, batch, hidden)
    params = RecurrenceParams(**given, **where, saves=saves)
    tables = ctx.template(FORWARD, x.dtype, size, (0, 1, 2, 3), operands, params)
    t, n, j = loop_vars(3)
    out = reindex(tables, (steps, batch, hidden), [0, t if reverse else t + 1, n, j])
    nothing = full((0,), 0, x.dtype)
    last: Value = nothing
    if cell == "lstm":
        at = [1, 0 if reverse else steps, *loop_vars(2)]
        last = reindex(tables, (batch, hidden), at)
    return out, last, tables if saves else nothing


@register(RECURRENCE_BACKWARD)
def lower_recurrence_backward(
    ctx: LoweringContext,
    grad: Value,
    grad_c: Value | None,
    tables: Value,
    weight: Value,
    cell: str,
    reverse: bool,
) -> Value:
    """The gradients of the gates [T + 1, N, columns * H]; see ``operators.py``."""
    steps, batch, hidden = grad.size
    given = _given(ctx, grad, batch, hidden, cell, reverse, 1)
    grad, where = _with_unit_stride(ctx, grad)
    packed = _packed_by_columns(ctx, weight, given["panel"])
    operands = [grad, packed, ctx.realize(tables, (0, 1, 2, 3))]
    if grad_c is not None:
        operands.append(ctx.realize(grad_c, (0, 1)))
    size = (steps + 1, batch, CELLS[cell].columns * hidden)
    params = RecurrenceGradientParams(**given, **where, given_c=grad_c is not None)
    return ctx.template(RECURRENCE_GRADIENT, grad.dtype, size, (0, 1, 2), operands, params)


class _CellGiven(TypedDict):
    """The parameters that the templates share."""

    cell: str
    reverse: bool
    steps: Size
    batch: Size
    hidden: int
    acc: str
    panel: Panel


class _Where(TypedDict):
    """Where operand 0 lies."""

    offset: Size
    step_stride: Size
    batch_stride: Size


def _given(
    ctx: LoweringContext,
    x: Value,
    batch: Size,
    hidden: Size,
    cell: str,
    reverse: bool,
    blocks: int,
) -> _CellGiven:
    """``blocks``: of a row of a panel for a unit."""
    if x.dtype not in (torch.float32, torch.float64):
        raise CannotLower(f"a recurrence of {x.dtype}")
    if not is_static(hidden) or any(same(n, 0) for n in (batch, hidden)):
        raise CannotLower("a recurrence of a number of units that is not known, or without any")
    acc = accumulator(x.dtype)
    return {
        "cell": cell, "reverse": reverse, "steps": x.size[0], "batch": batch,
        "hidden": int(hidden), "acc": acc,
        "panel": choose_panel(ctx.device, acc, int(hidden), blocks),
    }  # fmt: skip


def _with_unit_stride(ctx: LoweringContext, x: Value) -> tuple[Value, _Where]:
    """[T, N, columns] in memory with unit stride along the columns, and where it lies."""
    view = strided_view(x)
    if view is None or not same(view.stride[2], 1):
        x = ctx.realize(x, (0, 1, 2))
        view = strided_view(x)
    assert isinstance(view, StridedView)
    step, row, _ = view.stride
    return x, {"offset": view.offset, "step_stride": step, "batch_stride": row}


def _packed_by_units(ctx: LoweringContext, weight: Value, panel: Panel, cell: str) -> Value:
    """``W_hh`` [gates * H, H] as [panels][H][gates][width], the units being those of its rows."""
    hidden, gates = int(weight.size[1]), CELLS[cell].gates
    panels, width, unit = _units(ctx, hidden, panel, loop_vars(4)[3])
    _, k, g, _ = loop_vars(4)
    packed = reindex(weight, (panels, hidden, gates, width), [g * hidden + unit, k])
    return ctx.pointwise(packed, (0, 1, 2, 3))


def _packed_by_columns(ctx: LoweringContext, weight: Value, panel: Panel) -> Value:
    """``W_hh`` [gates * H, H] as [panels][gates * H][width], the units being those of its
    columns."""
    panels, width, unit = _units(ctx, int(weight.size[1]), panel, loop_vars(3)[2])
    packed = reindex(weight, (panels, weight.size[0], width), [loop_vars(3)[1], unit])
    return ctx.realize(packed, (0, 1, 2))


def _units(
    ctx: LoweringContext, hidden: int, panel: Panel, place: sympy.Symbol
) -> tuple[int, int, sympy.Expr]:
    """How many panels there are, of how many units, and which is at a ``place`` of panel ``v0``."""
    width = panel_width(ctx.device, hidden, panel)
    panels = ceil_div(hidden, width)
    unit = loop_vars(1)[0] * width + place
    if hidden % width:  # the last panel ends with the last unit
        unit -= (panels * width - hidden) * FloorDiv(loop_vars(1)[0], panels - 1)
    return panels, width, unit
