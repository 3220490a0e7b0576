"""Actors and critics of reinforcement learning: soft actor-critic and DrQ.

Papers: Haarnoja et al., arXiv 1801.01290; Kostrikov et al., arXiv 2004.13649. The environment and
the replay buffer are left out; the distributions' parameters and the value of the mean action are
the results, since samples could not be compared.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import mlp


def _bounded(log_std: Tensor, low: float, high: float) -> Tensor:
    return low + 0.5 * (high - low) * (torch.tanh(log_std) + 1)


class SoftActorCritic(nn.Module):
    """A stochastic actor and two critics over state vectors (B, states)."""

    def __init__(self, states: int = 3, actions: int = 1, hidden: int = 1024) -> None:
        super().__init__()
        self.actor = mlp([states, hidden, hidden, 2 * actions])
        self.critics = nn.ModuleList(mlp([states + actions, hidden, hidden, 1]) for _ in range(2))

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and standard deviation of the action, and the lower of two values of the mean."""
        mean, log_std = self.actor(state).chunk(2, dim=1)
        std = _bounded(log_std, -10.0, 2.0).exp()
        both = torch.cat([state, torch.tanh(mean)], dim=1)
        first, second = (critic(both) for critic in self.critics)
        return mean, std, torch.minimum(first, second)


class Drq(nn.Module):
    """A convolutional encoder, an actor and two critics over stacked frames (B, 9, 84, 84)."""

    def __init__(self, actions: int = 1, features: int = 50, hidden: int = 1024) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for index in range(4):
            layers += [nn.Conv2d(32 if index else 9, 32, 3, 1 if index else 2), nn.ReLU()]
        self.encoder = nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(32 * 35 * 35, features), nn.LayerNorm(features)
        )
        self.actor = mlp([features, hidden, hidden, 2 * actions])
        self.critics = nn.ModuleList(mlp([features + actions, hidden, hidden, 1]) for _ in range(2))

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean and standard deviation of the action, and both values of the mean action."""
        features = torch.tanh(self.encoder(frames / 255.0))
        mean, log_std = self.actor(features).chunk(2, dim=1)
        both = torch.cat([features, torch.tanh(mean)], dim=1)
        first, second = (critic(both) for critic in self.critics)
        return mean, _bounded(log_std, -10.0, 2.0).exp(), first, second
