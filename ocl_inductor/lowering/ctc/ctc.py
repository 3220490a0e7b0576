"""Connectionist temporal classification by templates: see :mod:`ocl_inductor.templates.ctc.ctc`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch

from ocl_inductor.ir.expr import cast, compare, const, index_value, logical_and, masked, where
from ocl_inductor.ir.index import Size, loop_vars, prod, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.indirect_load import clamp
from ocl_inductor.lowering.core.shapes import full, position_dtype, size_expr
from ocl_inductor.lowering.core.values import Value, reindex, reshape, strided_view
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.operators.ctc import CTC_LOSS, CTC_LOSS_BACKWARD
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.templates.ctc.ctc import (
    CTC_GRADIENT,
    CTC_STATES,
    GradientParams,
    StatesParams,
    ctc_columns,
)


class _CtcGiven(TypedDict):
    """The parameters that the templates share."""

    steps: Size
    batch: Size
    classes: Size
    offset: Size
    step_stride: Size
    batch_stride: Size
    labels: Size
    width: Size | None
    blank: int
    acc: str


@dataclass(frozen=True, slots=True)
class _Problem:
    """What both directions begin with: operands 0 to 3 of the templates, and their parameters."""

    operands: tuple[Value, ...]
    targets: Value  # int64, [labels]
    dtype: torch.dtype
    extents: tuple[Size, ...]  # steps, batch, classes
    params: _CtcGiven

    @property
    def states(self) -> tuple[Size, Size]:
        """The size of a table of states."""
        steps, batch, _ = self.extents
        return (steps + 1, ctc_columns(self.targets.size[0], batch))


def _problem(
    ctx: LoweringContext, x: Value, targets: Value, lengths: Sequence[Value], blank: int
) -> _Problem:
    if x.dtype not in (torch.float32, torch.float64):
        raise CannotLower(f"log_probs of {x.dtype}")
    if any(same(n, 0) for n in x.size):
        raise CannotLower("log_probs without elements")
    view = strided_view(x)
    if view is None or not same(view.stride[2], 1):
        x = ctx.realize(x, (0, 1, 2))
        view = strided_view(x)
    assert view is not None
    width = targets.size[1] if targets.ndim == 2 else None
    labels = prod(targets.size)
    flat = ctx.realize(reshape(targets, (labels,)), (0,))
    steps, batch, classes = x.size
    params: _CtcGiven = {
        "steps": steps, "batch": batch, "classes": classes, "offset": view.offset,
        "step_stride": view.stride[0], "batch_stride": view.stride[1], "labels": labels,
        "width": width, "blank": blank, "acc": accumulator(x.dtype),
    }  # fmt: skip
    if same(labels, 0):  # a buffer has an element at least
        label = full((1,), 0, torch.int32)
    else:
        # Clamped before it is narrowed: a label that is far out of range stays out of range.
        label = Value(flat.size, torch.int32, cast(clamp(flat.body, classes), torch.int32))
    operands = (x, *(ctx.realize(v, (0,)) for v in (label, *lengths)))
    return _Problem(operands, flat, x.dtype, x.size, params)


def _states(ctx: LoweringContext, problem: _Problem, *, reverse: bool) -> Value:
    operands = (*problem.operands, _repeated(ctx, problem))
    params = StatesParams(**problem.params, reverse=reverse)
    return ctx.template(CTC_STATES, problem.dtype, problem.states, (0, 1), operands, params)


def _repeated(ctx: LoweringContext, problem: _Problem) -> Value:
    """``[labels + 1]``: minus infinity at labels that equal the one before them, else 0."""
    (v,) = loop_vars(1)
    labels, dtype = problem.targets.size[0], problem.dtype
    if same(labels, 0):
        return ctx.pointwise(full((1,), 0, dtype), (0,))
    place = position_dtype(labels)
    i = index_value(v, place)
    inside = logical_and(
        compare("gt", i, const(0, place)), compare("lt", i, size_expr(labels, place))
    )
    equal = compare("eq", problem.targets.at([v]), problem.targets.at([v - 1]))
    nothing, minus = const(0, dtype), const(-float("inf"), dtype)
    body = masked(inside, where(equal, minus, nothing), nothing)
    return ctx.pointwise(Value((labels + 1,), dtype, body), (0,))


@register(CTC_LOSS)
def lower_ctc_loss(
    ctx: LoweringContext,
    log_probs: Value,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    blank: int,
    zero_infinity: bool,
) -> tuple[Value, Value]:
    """The losses [N] and the logarithms of alpha, of ``log_probs`` [T, N, C].

    A length out of range counts as the nearest one inside, as does a label.
    """
    problem = _problem(ctx, log_probs, targets, (input_lengths, target_lengths), blank)
    alpha = _states(ctx, problem, reverse=False)
    steps, batch, _ = problem.extents
    return reindex(alpha, (batch,), [steps, loop_vars(1)[0]]), alpha


@register(CTC_LOSS_BACKWARD)
def lower_ctc_loss_backward(
    ctx: LoweringContext,
    grad: Value,
    log_probs: Value,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    neg_log_likelihood: Value,
    log_alpha: Value,
    blank: int,
    zero_infinity: bool,
) -> Value:
    """The gradient for ``log_probs`` [T, N, C], contiguous."""
    problem = _problem(ctx, log_probs, targets, (input_lengths, target_lengths), blank)
    beta = _states(ctx, problem, reverse=True)
    operands = (
        *problem.operands,
        ctx.realize(log_alpha, (0, 1)),
        beta,
        ctx.realize(grad, (0,)),
    )
    params = GradientParams(**problem.params, zero_infinity=zero_infinity)
    order = (0, 1, 2)
    return ctx.template(CTC_GRADIENT, problem.dtype, problem.extents, order, operands, params)
