"""Recurrent layers by templates: see :mod:`ocl_inductor.templates.recurrent.recurrence`."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.index import Size, is_static, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.registry import CannotLower, register
from ocl_inductor.lowering.core.shapes import full
from ocl_inductor.lowering.core.values import (
    StridedView,
    Value,
    reindex,
    strided_view,
)
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.lowering.recurrent.operators import RECURRENCE, RECURRENCE_BACKWARD
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.recurrent.recurrence import CELLS, panel, panel_width, planes


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
    params = _parameters(ctx, x, batch, hidden, cell, reverse, CELLS[cell].gates)
    x, where = _with_unit_stride(ctx, x)
    operands = [x, _packed_by_units(ctx, weight, params), ctx.realize(h, (0, 1))]
    if c is not None:
        operands.append(ctx.realize(c, (0, 1)))
    elif bias is not None:
        operands.append(ctx.realize(bias, (0,)))
    size = (planes(cell, saves), steps + 1, batch, hidden)
    tables = ctx.template(
        "recurrence", x.dtype, size, (0, 1, 2, 3), operands, saves=saves, **where, **params
    )
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
    params = _parameters(ctx, grad, batch, hidden, cell, reverse, 1)
    grad, where = _with_unit_stride(ctx, grad)
    operands = [grad, _packed_by_columns(ctx, weight, params), ctx.realize(tables, (0, 1, 2, 3))]
    if grad_c is not None:
        operands.append(ctx.realize(grad_c, (0, 1)))
    size = (steps + 1, batch, CELLS[cell].columns * hidden)
    return ctx.template(
        "recurrence_gradient", grad.dtype, size, (0, 1, 2), operands,
        given_c=grad_c is not None, **where, **params,
    )  # fmt: skip


def _parameters(
    ctx: LoweringContext,
    x: Value,
    batch: Size,
    hidden: Size,
    cell: str,
    reverse: bool,
    blocks: int,
) -> dict[str, Any]:
    """The templates' parameters; ``blocks``: of a row of a panel for a unit."""
    if x.dtype not in (torch.float32, torch.float64):
        raise CannotLower(f"a recurrence of {x.dtype}")
    if not is_static(hidden) or any(same(n, 0) for n in (batch, hidden)):
        raise CannotLower("a recurrence of a number of units that is not known, or without any")
    acc = accumulator(x.dtype)
    return {
        "cell": cell, "reverse": reverse, "steps": x.size[0], "batch": batch,
        "hidden": int(hidden), "acc": acc, **panel(ctx.device, acc, int(hidden), blocks),
    }  # fmt: skip


def _with_unit_stride(ctx: LoweringContext, x: Value) -> tuple[Value, dict[str, Size]]:
    """[T, N, columns] in memory with unit stride along the columns, and where it lies."""
    view = strided_view(x)
    if view is None or not same(view.stride[2], 1):
        x = ctx.realize(x, (0, 1, 2))
        view = strided_view(x)
    assert isinstance(view, StridedView)
    step, row, _ = view.stride
    return x, {"offset": view.offset, "step_stride": step, "batch_stride": row}


def _packed_by_units(ctx: LoweringContext, weight: Value, params: dict[str, Any]) -> Value:
    """``W_hh`` [gates * H, H] as [panels][H][gates][width], the units being those of its rows."""
    hidden, gates = params["hidden"], CELLS[params["cell"]].gates
    panels, width, unit = _units(ctx, params, loop_vars(4)[3])
    _, k, g, _ = loop_vars(4)
    packed = reindex(weight, (panels, hidden, gates, width), [g * hidden + unit, k])
    return ctx.pointwise(packed, (0, 1, 2, 3))


def _packed_by_columns(ctx: LoweringContext, weight: Value, params: dict[str, Any]) -> Value:
    """``W_hh`` [gates * H, H] as [panels][gates * H][width], the units being those of its
    columns."""
    panels, width, unit = _units(ctx, params, loop_vars(3)[2])
    packed = reindex(weight, (panels, weight.size[0], width), [loop_vars(3)[1], unit])
    return ctx.realize(packed, (0, 1, 2))


def _units(
    ctx: LoweringContext, params: dict[str, Any], place: sympy.Symbol
) -> tuple[int, int, sympy.Expr]:
    """How many panels there are, of how many units, and which is at a ``place`` of panel ``v0``."""
    width, hidden = panel_width(ctx.device, params), params["hidden"]
    panels = ceil_div(hidden, width)
    unit = loop_vars(1)[0] * width + place
    if hidden % width:  # the last panel ends with the last unit
        unit -= (panels * width - hidden) * FloorDiv(loop_vars(1)[0], panels - 1)
    return panels, width, unit
