"""The recurrence of a layer of LSTM, GRU or RNN as an operator, and its gradient.

The products of all inputs with ``W_ih`` come from outside, as do the gradients of both weights:
each is one product for all time steps. What the tables hold is said at the templates
(:mod:`ocl_inductor.templates.recurrent.recurrence`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ocl_inductor.lowering.core.library import LIBRARY, ops
from ocl_inductor.templates.recurrent.recurrence import CELLS, planes

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
    steps, batch = x.shape[:2]
    first = steps if reverse else 0
    tables = x.new_zeros((planes(cell, True), steps + 1, batch, weight.shape[1]))
    tables[0, first] = h
    if c is not None:
        tables[1, first] = c
    for t in reversed(range(steps)) if reverse else range(steps):
        before, after = (t + 1, t) if reverse else (t, t + 1)
        found: tuple[Tensor, ...]
        gates = CELLS[cell].gates
        given, product = x[t].chunk(gates, 1), (tables[0, before] @ weight.t()).chunk(gates, 1)
        if cell == "lstm":
            i, f, o = (torch.sigmoid(given[n] + product[n]) for n in (0, 1, 3))
            g = torch.tanh(given[2] + product[2])
            c = f * tables[1, before] + i * g
            found = (o * torch.tanh(c), c, i, f, g, o)
        elif cell == "gru":
            assert bias is not None
            r, z = (torch.sigmoid(given[n] + product[n]) for n in (0, 1))
            q = product[2] + bias
            n = torch.tanh(given[2] + r * q)
            found = (n + z * (tables[0, before] - n), r, z, n, q)
        else:
            found = (getattr(torch, cell)(given[0] + product[0]),)
        tables[:, after] = torch.stack(found)
    out = tables[0, :-1] if reverse else tables[0, 1:]
    return (
        out.clone(),
        x.new_empty((0,)) if c is None else c.clone(),
        tables if saves else x.new_empty((0,)),
    )


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
    steps, batch, hidden = grad.shape
    result = grad.new_zeros((steps + 1, batch, CELLS[cell].columns * hidden))
    carried = grad.new_zeros((batch, hidden)) if grad_c is None else grad_c
    d = grad.new_zeros((batch, hidden))
    for t in range(steps) if reverse else reversed(range(steps)):
        before, after = (t + 1, t) if reverse else (t, t + 1)
        d = d + grad[t]
        if cell == "lstm":
            _, c, i, f, g, o = tables[:, after]
            dc = carried + d * o * (1 - torch.tanh(c) ** 2)
            found = [dc * g * i * (1 - i), dc * tables[1, before] * f * (1 - f)]
            found += [dc * i * (1 - g * g), d * torch.tanh(c) * o * (1 - o)]
            carried = dc * f
        elif cell == "gru":
            _, r, z, n, q = tables[:, after]
            d = d + carried
            dn = d * (1 - z) * (1 - n * n)
            found = [dn * q * r * (1 - r), d * (tables[0, before] - n) * z * (1 - z), dn * r, dn]
            carried = d * z
        else:
            h = tables[0, after]
            found = [d * (1 - h * h) if cell == "tanh" else d * ~(h <= 0)]
        result[t] = torch.cat(found, 1)
        d = result[t, :, : weight.shape[0]] @ weight
    if CELLS[cell].columns > 1:
        result[steps, :, :hidden] = carried
    return result


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, weight, bias, _, c, ctx.cell, ctx.reverse, saves = inputs
    _, last_c, tables = output
    ctx.has_bias = bias is not None
    ctx.save_for_backward(weight, tables)
    ctx.mark_non_differentiable(tables, *([] if c is not None else [last_c]))
    ctx.set_materialize_grads(False)
    assert saves or not torch.is_grad_enabled()


def _backward(
    ctx: Any, grad: Tensor | None, grad_c: Tensor | None, _: Any
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
