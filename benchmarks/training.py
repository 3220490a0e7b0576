"""Training steps of the zoo's models: without randomness, with one loss for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Entry, tensor_outputs
from ocl_inductor.sweep.rows.weights import without_dropout


def trainable(entry: Entry, small: bool = True) -> nn.Module:
    """A zoo model, ready to train."""
    model = entry.build(small=small).requires_grad_(True).train()
    without_dropout(model)
    return model


def loss_of(output: Any) -> Tensor:
    """The mean square of everything differentiable that the model returns."""
    squares = [(t * t).mean() for _, t in tensor_outputs(output) if t.requires_grad]
    return torch.stack(squares).sum()


def training_step(model: nn.Module, call: Callable[..., Any]) -> Callable[..., dict[str, Tensor]]:
    """Forward and backward through ``call``, a compiled form of ``model`` or itself.

    The function takes the model's arguments and gives the loss and the gradient of each parameter,
    which start from nothing.
    """

    def step(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        model.zero_grad(set_to_none=True)
        with torch.enable_grad():
            loss = loss_of(call(*args, **kwargs))
            loss.backward()
        found = {"loss": loss.detach()}
        return found | {n: p.grad for n, p in model.named_parameters() if p.grad is not None}

    return step
