"""One step of an LSTM and of a GRU on ``ocl``, as PyTorch asks accelerators for them.

PyTorch computes the products with both weights itself, and calls one operator for everything else
of a step. ``input`` (B, g H) and ``hidden`` (B, g H) are these products, with g = 4 gates of an
LSTM (input, forget, cell, output) or g = 3 of a GRU (reset, update, new); biases have g H elements
or are None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor
Maybe: TypeAlias = torch.Tensor | None


def lstm_cell(
    input: Tensor, hidden: Tensor, cx: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The new output and state (B, H), and the gates (B, 4 H), which the gradient reads."""
    i, f, g, o = _sum(input, hidden, input_bias, hidden_bias).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


def lstm_cell_backward(
    grad_hy: Maybe, grad_cy: Maybe, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Maybe, Maybe, Maybe]:
    """The gradients of the gates (B, 4 H), of the old state (B, H), and of the bias (4 H)."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    t = cy.tanh()
    grad_h = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_c = grad_h * o * (1 - t * t)
    if grad_cy is not None:
        grad_c = grad_c + grad_cy
    gates = torch.cat(
        (
            grad_c * g * i * (1 - i),
            grad_c * cx * f * (1 - f),
            grad_c * i * (1 - g * g),
            grad_h * t * o * (1 - o),
        ),
        1,
    )
    return gates, grad_c * f, gates.sum(0) if has_bias else None


def gru_cell(
    input: Tensor, hidden: Tensor, hx: Tensor, input_bias: Maybe = None, hidden_bias: Maybe = None
) -> tuple[Tensor, Tensor]:
    """The new output (B, H), and what the gradient reads (B, 5 H)."""
    ir, iz, inew = _sum(input, None, input_bias, None).chunk(3, 1)
    hr, hz, hn = _sum(hidden, None, hidden_bias, None).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (inew + r * hn).tanh()
    return n + z * (hx - n), torch.cat((r, z, n, hx, hn), 1)


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Maybe, Maybe]:
    """The gradients of both products (B, 3 H), of the old output (B, H), and of both biases."""
    r, z, n, hx, hn = workspace.chunk(5, 1)
    grad_z = grad_hy * (hx - n) * z * (1 - z)
    grad_n = grad_hy * (1 - z) * (1 - n * n)
    grad_r = grad_n * hn * r * (1 - r)
    input = torch.cat((grad_r, grad_z, grad_n), 1)
    hidden = torch.cat((grad_r, grad_z, grad_n * r), 1)
    biases = (input.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return input, hidden, grad_hy * z, *biases


def _sum(*parts: Maybe) -> Tensor:
    first, *rest = (x for x in parts if x is not None)
    for x in rest:
        first = first + x
    return first


#: By overload of aten.
CELLS: dict[str, Callable[..., object]] = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
