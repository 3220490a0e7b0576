"""Ways to write a parameter, by optimisers: see unseen_writes.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from unseen_writes import Way


def optimiser(kind: type[torch.optim.Optimizer], **options: Any) -> Way:
    def step(model: nn.Module, name: str, _: Path) -> None:
        w = model.get_parameter(name)
        w.grad = torch.zeros_like(w)
        w.grad[3] = 1
        kind([w], **options).step()
        w.grad = None

    return step


class WritesData(torch.optim.Optimizer):
    """As optimisers were written before ``torch.no_grad``."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad.data, alpha=-1)


def averaged(model: nn.Module, name: str, _: Path) -> None:
    """A moving average that takes the place of the model's weights, as PyTorch's example does."""
    average = torch.optim.swa_utils.AveragedModel(model)
    average.module.get_parameter(name).data[1] += 2
    for p, q in zip(model.parameters(), average.module.parameters(), strict=True):
        p.data.copy_(q.data)


def fused_function(model: nn.Module, name: str, _: Path) -> None:
    w = model.get_parameter(name)
    gradient = torch.zeros_like(w)
    gradient[1] = 1
    torch._fused_sgd_(
        [w.data], [gradient], [], weight_decay=0.0, momentum=0.0, lr=0.5, dampening=0.0,
        nesterov=False, maximize=False, is_first_step=False,
    )  # fmt: skip


OPTIMISERS: dict[str, Way] = {
    "fused_sgd": optimiser(torch.optim.SGD, lr=0.5, fused=True),
    "fused_adam": optimiser(torch.optim.Adam, lr=0.5, fused=True),
    "fused_adamw": optimiser(torch.optim.AdamW, lr=0.5, weight_decay=0, fused=True),
    "fused_adagrad": optimiser(torch.optim.Adagrad, lr=0.5, fused=True),
    "foreach_sgd": optimiser(torch.optim.SGD, lr=0.5, foreach=True),
    "optimiser_of_data": optimiser(WritesData),
    "averaged": averaged,
    "fused_function": fused_function,
}
