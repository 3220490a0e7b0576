"""A network for a Lennard-Jones potential whose forces are its derivative.

TorchBench's ``lennard_jones``, after Uhrin, "Through the eyes of a descriptor" (milad): energies
of distances from a small network, forces by the Jacobian of that network with torch.func.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import mlp


class LennardJones(nn.Module):
    """Difference vectors (B, 3) to energies (B, 1) and forces (B, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp([1, 16, 16, 16, 16, 1], nn.Tanh)

    def forward(self, differences: Tensor) -> tuple[Tensor, Tensor]:
        norms = differences.norm(dim=1, keepdim=True)
        slopes = torch.func.vmap(torch.func.jacrev(self.net))(norms).squeeze(-1)
        return self.net(norms), -slopes * differences / norms


def loss(outputs: tuple[Tensor, Tensor], distances: Tensor) -> Tensor:
    """Squared errors of energies and of forces, the latter weighted, against the potential.

    ``distances`` (B, 1) are a stand-in for those of the inputs; only the scale matters here.
    """
    sigma, epsilon = 0.5, 4.0
    energies, forces = outputs
    ratio = (sigma / distances) ** 6
    wanted = epsilon * (ratio * ratio - ratio)
    pull = epsilon * (12 * ratio * ratio - 6 * ratio) / distances
    return (energies - wanted).square().mean() + 0.01 * (forces - pull).square().mean() / 3
