"""The convolutional network that MAML adapts on Omniglot (Finn et al., arXiv 1703.03400)."""

from __future__ import annotations

from typing import Any

from torch import nn


def network(ways: int = 5, **norm: Any) -> nn.Sequential:
    """(B, 1, 28, 28) to (B, ways) logits; ``norm`` goes to the three batch norms.

    The inner loop of MAML is not part of the module, as in dynamobench; the row ``maml`` has it.
    """
    layers: list[nn.Module] = []
    for inputs in (1, 64, 64):
        layers += [nn.Conv2d(inputs, 64, 3), nn.BatchNorm2d(64, **norm), nn.ReLU(inplace=True)]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, ways))
