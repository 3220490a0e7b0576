"""What the templates of recurrent layers are specified by, and our operators on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ocl_inductor.operators.recurrence import RECURRENCE, RECURRENCE_BACKWARD
from ocl_inductor.templates.recurrent.recurrence import CELLS, RECURRENCE_GRADIENT
from ocl_inductor.templates.recurrent.recurrence import RECURRENCE as TEMPLATE

STEPS, BATCH, HIDDEN = 5, 2, 3
MODULES: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN, "relu": nn.RNN}


def _given(cell: str) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    rows = CELLS[cell].gates * HIDDEN
    sizes = ((STEPS, BATCH, rows), (rows, HIDDEN), (HIDDEN,), (BATCH, HIDDEN), (BATCH, HIDDEN))
    return tuple(torch.randn(size, dtype=torch.float64) for size in sizes)


def _module(cell: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """A layer whose products with ``W_ih`` are its inputs, and its states."""
    x, weight, bias, h, c = _given(cell)
    options = {"nonlinearity": cell} if cell in ("tanh", "relu") else {}
    module = MODULES[cell](x.shape[2], HIDDEN, **options).double()
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        parameters["weight_ih_l0"].copy_(torch.eye(x.shape[2]))
        parameters["weight_hh_l0"].copy_(weight)
        for name in ("bias_ih_l0", "bias_hh_l0"):
            parameters[name].zero_()
        if cell == "gru":
            parameters["bias_hh_l0"][2 * HIDDEN :] = bias
    return module, (h[None], c[None]) if cell == "lstm" else h[None]  # type: ignore[return-value]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_all_forms_agree(cell: str, reverse: bool) -> None:
    """PyTorch's layer, the operators with their gradient, and the templates' references."""
    x, weight, bias, h, c = _given(cell)
    module, states = _module(cell)
    tensors = [t.clone().requires_grad_() for t in (x, weight, bias, h, c)]
    inner = tensors[2] if cell == "gru" else None
    memory = tensors[4] if cell == "lstm" else None
    out, last, tables = RECURRENCE(
        tensors[0], tensors[1], inner, tensors[3], memory, cell, reverse, True
    )
    given = x.flip(0) if reverse else x
    given = given.clone().requires_grad_()
    theirs, final = module(given, states)
    expected = theirs.flip(0) if reverse else theirs
    torch.testing.assert_close(out, expected)
    loss = (out * torch.linspace(1, 2, out.numel()).view_as(out)).sum()
    same = (expected * torch.linspace(1, 2, out.numel()).view_as(out)).sum()
    if cell == "lstm":
        torch.testing.assert_close(last, final[1][0])
        loss, same = loss + (last * last).sum(), same + (final[1] * final[1]).sum()
    mine = torch.autograd.grad(loss, [tensors[0], tensors[1]])
    right = torch.autograd.grad(same, [given, dict(module.named_parameters())["weight_hh_l0"]])
    torch.testing.assert_close(mine[0].flip(0) if reverse else mine[0], right[0])
    torch.testing.assert_close(mine[1], right[1])
    if not reverse:
        other = {"lstm": c, "gru": bias}.get(cell)
        reference = TEMPLATE.reference(
            x.numpy(), weight.numpy(), h.numpy(), None if other is None else other.numpy(), cell
        )
        np.testing.assert_allclose(tables.detach().numpy(), reference, atol=1e-12)
        grad, grad_c = torch.randn_like(expected), torch.randn_like(h)
        found = RECURRENCE_BACKWARD(
            grad, grad_c if cell == "lstm" else None, tables.detach(), weight, cell, False
        )
        reference = RECURRENCE_GRADIENT.reference(
            grad.numpy(),
            weight.numpy(),
            reference,
            grad_c.numpy() if cell == "lstm" else None,
            cell,
        )
        np.testing.assert_allclose(found.numpy(), reference, atol=1e-12)


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_results_share_no_memory(cell: str, reverse: bool, saves: bool) -> None:
    """PyTorch refuses an operator of which one result is another's memory, or an argument's."""
    x, weight, bias, h, c = _given(cell)
    given = [x, weight, bias if cell == "gru" else None, h, c if cell == "lstm" else None]
    results = RECURRENCE(*given, cell, reverse, saves)
    memory = [t.untyped_storage()._cdata for t in (*results, *given) if t is not None]
    assert len(set(memory)) == len(memory)
