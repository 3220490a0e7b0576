"""The recurrence of a layer of LSTM, GRU or RNN as an operator, and its gradient.

The products of all inputs with ``W_ih`` come from outside, as do the gradients of both weights:
each is one product for all time steps. What the tables hold is said at the templates
(:mod:`ocl_inductor.templates.recurrent.recurrence`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ocl_inductor.operators.library import LIBRARY, ops
from ocl_inductor.templates.recurrent.recurrence import CELLS, RECURRENCE_GRADIENT, planes
from ocl_inductor.templates.recurrent.recurrence import RECURRENCE as RECURRENCE_TEMPLATE

LIBRARY.define(
    "recurrence(Tensor x, Tensor weight, Tensor? bias, Tensor h, Tensor? c, str cell, "
    "bool reverse, bool saves) -> (Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
LIBRARY.define(
    "recurrence_backward(Tensor grad, Tensor? grad_c, Tensor tables, Tensor weight, str cell, "
    "bool reverse) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
RECURRENCE = ops.recurrence.default
RECURRENCE_BACKWARD = ops.recurrence_backward.default


@torch.library.register_fake("ocl_inductor::recurrence", lib=LIBRARY)
def _states_shapes(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    h: Tensor,
    c: Tensor | None,
    cell: str,
    reverse: bool,
    saves: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    steps, batch = x.shape[:2]
    hidden = weight.shape[1]
    torch._check(steps > 0, lambda: "Expected sequence length to be larger than 0 in RNN")
    torch._check(h.shape == (batch, hidden), lambda: "the initial h is [batch, hidden]")
    return (
        x.new_empty((steps, batch, hidden)),
        x.new_empty((batch, hidden) if cell == "lstm" else (0,)),
        x.new_empty((planes(cell, True), steps + 1, batch, hidden) if saves else (0,)),
    )


@torch.library.register_fake("ocl_inductor::recurrence_backward", lib=LIBRARY)
def _gradient_shape(
    grad: Tensor,
    grad_c: Tensor | None,
    tables: Tensor,
    weight: Tensor,
    cell: str,
    reverse: bool,
) -> Tensor:
    steps, batch, hidden = grad.shape
    return grad.new_empty((steps + 1, batch, CELLS[cell].columns * hidden))


@torch.library.impl(LIBRARY, "recurrence", "CPU")
def _states_on_host(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    h: Tensor,
    c: Tensor | None,
    cell: str,
    reverse: bool,
    saves: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """All ``h`` [T, N, H], the last ``c`` [N, H] and the tables [P, T + 1, N, H].

    ``x`` [T, N, gates * H], ``weight`` [gates * H, H], ``bias`` [H] (gru), ``h`` and ``c`` [N, H].
    ``c`` is empty for other cells than lstm, and so are the tables unless ``saves``.
    """
    other = c if cell == "lstm" else bias
    given = [t if t is None else t.numpy() for t in (weight, h, other)]
    found = RECURRENCE_TEMPLATE.reference(_in_time(x, 0, reverse).numpy(), *given, cell)
    tables = _in_time(torch.from_numpy(found).to(x.dtype), 1, reverse).contiguous()
    # A fresh tensor for each result: PyTorch refuses an operator whose results share memory.
    return (
        (tables[0, :-1] if reverse else tables[0, 1:]).clone(),
        tables[1, 0 if reverse else -1].clone() if cell == "lstm" else x.new_empty((0,)),
        tables if saves else x.new_empty((0,)),
    )


def _in_time(x: Tensor, dim: int, reverse: bool) -> Tensor:
    """``x`` with its steps along ``dim`` in the order in which the layer takes them."""
    return x.flip(dim) if reverse else x


@torch.library.impl(LIBRARY, "recurrence_backward", "CPU")
def _gradient_on_host(
    grad: Tensor,
    grad_c: Tensor | None,
    tables: Tensor,
    weight: Tensor,
    cell: str,
    reverse: bool,
) -> Tensor:
    """The gradients of the gates [T + 1, N, columns * H], the last row as the template has it.

    ``grad`` [T, N, H] of all ``h``, ``grad_c`` [N, H] of the last ``c``.
    """
    found = RECURRENCE_GRADIENT.reference(
        _in_time(grad, 0, reverse).numpy(),
        weight.numpy(),
        _in_time(tables, 1, reverse).numpy(),
        None if grad_c is None else grad_c.numpy(),
        cell,
    )
    result = torch.from_numpy(found).to(grad.dtype)
    return torch.cat((_in_time(result[:-1], 0, reverse), result[-1:]))


def _save(
    ctx: torch.autograd.function.FunctionCtx, inputs: tuple[object, ...], output: tuple[Tensor, ...]
) -> None:
    _, weight, bias, _, c, ctx.cell, ctx.reverse, saves = inputs
    _, last_c, tables = output
    ctx.has_bias = bias is not None
    ctx.save_for_backward(weight, tables)
    ctx.mark_non_differentiable(tables, *([] if c is not None else [last_c]))
    ctx.set_materialize_grads(False)
    assert saves or not torch.is_grad_enabled()


def _backward(
    ctx: torch.autograd.function.FunctionCtx, grad: Tensor | None, grad_c: Tensor | None, _: object
) -> tuple[Tensor | None, ...]:
    if grad is None and grad_c is None:
        return (None,) * 8
    weight, tables = ctx.saved_tensors
    rows, hidden = weight.shape
    lstm, gru = ctx.cell == "lstm", ctx.cell == "gru"
    steps = tables.shape[1] - 1
    if grad is None:
        grad = tables.new_zeros((steps, *tables.shape[2:]))
    found = RECURRENCE_BACKWARD(grad, grad_c, tables, weight, ctx.cell, ctx.reverse)
    gates, carried = found[:steps, :, :rows], found[steps, :, :hidden]
    before = tables[0, 1:] if ctx.reverse else tables[0, :-1]
    grad_h = gates[steps - 1 if ctx.reverse else 0] @ weight
    grad_x = gates
    if gru:
        grad_h = grad_h + carried
        grad_x = torch.cat((found[:steps, :, : 2 * hidden], found[:steps, :, 3 * hidden :]), -1)
    return (
        grad_x,
        gates.reshape(-1, rows).t() @ before.reshape(-1, hidden),
        gates[:, :, 2 * hidden :].sum((0, 1)) if ctx.has_bias else None,
        grad_h,
        carried if lstm else None,
        None,
        None,
        None,
    )


torch.library.register_autograd(
    "ocl_inductor::recurrence", _backward, setup_context=_save, lib=LIBRARY
)
