"""A model whose parameters reach kernels in each of the ways there are."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """Weights that are packed (linear, convolution), folded (batch norm) and read as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 19)
        self.register_buffer("scale", torch.rand(19) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.linear(x) * self.scale


def new_model() -> Model:
    model = Model().eval()
    with torch.no_grad():
        for t in [*model.parameters(), model.norm.running_mean]:
            t.normal_()
        model.norm.running_var.uniform_(0.5, 2)
    return model
