"""``nn.LSTM``, ``nn.GRU`` and ``nn.RNN``: Dynamo traces the functions here for their operators.

A layer is a product of all inputs with ``W_ih`` and one recurrence for each direction
(:mod:`ocl_inductor.operators.recurrence`), whatever the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._dynamo import config
from torch._dynamo.exc import unimplemented
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import BaseListVariable
from torch.nn import functional as F

from ocl_inductor.capture.decompositions.traced_calls import example, handler, is_ours
from ocl_inductor.operators.recurrence import RECURRENCE
from ocl_inductor.patches.pytorch.recurrent_modules import trace_modules

_HALVES = (torch.float16, torch.bfloat16)


def lstm(
    input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], *flags: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """As ``torch.lstm`` of a padded batch: the output, the last ``h`` and the last ``c``."""
    return _layers("lstm", input, hx[0], hx[1], params, *flags)


def gru(input: Tensor, hx: Tensor, params: Sequence[Tensor], *flags: Any) -> tuple[Tensor, Tensor]:
    """As ``torch.gru`` of a padded batch: the output and the last ``h``."""
    return _layers("gru", input, hx, None, params, *flags)[:2]


def rnn_tanh(
    input: Tensor, hx: Tensor, params: Sequence[Tensor], *flags: Any
) -> tuple[Tensor, Tensor]:
    """As ``torch.rnn_tanh`` of a padded batch: the output and the last ``h``."""
    return _layers("tanh", input, hx, None, params, *flags)[:2]


def rnn_relu(
    input: Tensor, hx: Tensor, params: Sequence[Tensor], *flags: Any
) -> tuple[Tensor, Tensor]:
    """As ``torch.rnn_relu`` of a padded batch: the output and the last ``h``."""
    return _layers("relu", input, hx, None, params, *flags)[:2]


def _layers(
    cell: str,
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """All layers: the output, and the last states [layers * directions, N, H]."""
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    last_h: list[Tensor] = []
    last_c: list[Tensor] = []
    if batch_first:
        x = x.transpose(0, 1)
    for layer in range(num_layers):
        outputs: list[Tensor] = []
        for direction in range(directions):
            n = layer * directions + direction
            weights = params[n * each : (n + 1) * each]
            output, state = _direction(
                cell, x, h[n], None if c is None else c[n], weights, direction == 1
            )
            outputs.append(output)
            last_h.append(output[0] if direction == 1 else output[-1])
            last_c.append(state)
        x = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if train and dropout > 0 and layer < num_layers - 1:
            x = F.dropout(x, dropout)
    if batch_first:
        x = x.transpose(0, 1)
    return x, torch.stack(last_h), torch.stack(last_c)


def _direction(
    cell: str, x: Tensor, h: Tensor, c: Tensor | None, weights: Sequence[Tensor], reverse: bool
) -> tuple[Tensor, Tensor]:
    """One direction of a layer over ``x`` [T, N, features]: all ``h`` and the last ``c``."""
    weight, inner = weights[1], None
    bias = weights[2] if len(weights) == 4 else None
    if cell == "gru":
        # The last third of the recurrent bias lies inside the reset gate.
        hidden = weight.shape[1]
        inner = weight.new_zeros(hidden) if bias is None else weights[3][2 * hidden :]
        if bias is not None:
            outer = torch.cat((weights[3][: 2 * hidden], weight.new_zeros(hidden)))
            bias = bias + outer
    elif bias is not None:
        bias = bias + weights[3]
    given = F.linear(x, weights[0], bias)
    if dtype := x.dtype if x.dtype in _HALVES else None:
        given, weight, h = given.float(), weight.float(), h.float()
        c = None if c is None else c.float()
        inner = None if inner is None else inner.float()
    saves = torch.is_grad_enabled() and (
        given.requires_grad or weight.requires_grad or h.requires_grad
    )
    if c is not None and torch.is_grad_enabled():
        saves = saves or c.requires_grad
    output, state, _ = RECURRENCE(given, weight, inner, h, c, cell, reverse, saves)
    return (output.to(dtype), state.to(dtype)) if dtype else (output, state)


_TRACED: dict[Callable[..., object], Callable[..., object]] = {
    torch.lstm: lstm,
    torch.gru: gru,
    torch.rnn_tanh: rnn_tanh,
    torch.rnn_relu: rnn_relu,
}


def trace_recurrent_modules() -> None:
    """Make Dynamo trace the modules in graphs for this backend, with the functions above."""
    handlers = {f: handler(traced, _covered, _break_graph) for f, traced in _TRACED.items()}
    trace_modules(handlers, is_ours)


def _covered(
    input: VariableTracker | None = None,
    hx: VariableTracker | None = None,
    params: VariableTracker | None = None,
    has_biases: VariableTracker | None = None,
    num_layers: VariableTracker | None = None,
    dropout: VariableTracker | None = None,
    train: VariableTracker | None = None,
    bidirectional: VariableTracker | None = None,
    batch_first: VariableTracker | None = None,
) -> bool:
    """Whether it is a padded batch, in one dtype on one device, without projections.

    Under autocast eager chooses the dtype of each operator inside.
    """
    if not isinstance(params, BaseListVariable) or hx is None or batch_first is None:
        return False  # a packed batch has the tensor of its sizes before the states
    weights = [example(v) for v in params.unpack_var_sequence(None)]
    states = hx.unpack_var_sequence(None) if isinstance(hx, BaseListVariable) else [hx]
    tensors = [example(input), *(example(v) for v in states), *weights]
    x = tensors[0]
    if x is None or torch.is_autocast_enabled(x.device.type):
        return False
    if x.dim() != 3 or x.dtype not in (torch.float32, torch.float64, *_HALVES):
        return False
    if any(t is None or t.dtype != x.dtype or t.device != x.device for t in tensors):
        return False
    flags = (has_biases, num_layers, bidirectional)
    biases, layers, both = (v.as_python_constant() for v in flags if v is not None)
    return len(weights) == layers * (2 if both else 1) * (4 if biases else 2)


def _break_graph() -> None:
    """As Dynamo does at modules of this kind, unless it was told to unroll them."""
    if not config.allow_rnn:
        unimplemented(
            gb_type="Attempted to wrap RNN, GRU, or LSTM",
            context="a packed batch, projections, autocast, or mixed dtypes",
            explanation="This form of a recurrent layer is left to eager.",
            hints=["Set torch._dynamo.config.allow_rnn=True to unroll it over time."],
        )
