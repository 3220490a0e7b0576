"""MAML with its inner loop (Finn et al., arXiv 1703.03400): steps of gradient descent per task.

Four convolutions with batch norms over the batch, five tasks' ways; torch.func takes the
gradients, for all tasks at once. The results are the losses after each step, which vary smoothly,
instead of the accuracies, which do not.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F


class Maml(nn.Module):
    """Support (B, 5, 1, 28, 28) and query (B, 75, 1, 28, 28) images of B tasks, with labels.

    Returns the query losses before adaptation and after each of ``steps`` steps, (B, steps + 1).
    """

    def __init__(self, ways: int = 5, steps: int = 5, rate: float = 0.4) -> None:
        super().__init__()
        self.steps, self.rate = steps, rate
        layers: list[nn.Module] = []
        for inputs, kernel, stride in ((1, 3, 2), (64, 3, 2), (64, 3, 2), (64, 2, 1)):
            layers += [nn.Conv2d(inputs, 64, kernel, stride), nn.ReLU()]
            layers.append(nn.BatchNorm2d(64, track_running_stats=False))
        self.net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, ways))

    def forward(self, support: Tensor, known: Tensor, query: Tensor, wanted: Tensor) -> Tensor:
        def loss(weights: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
            return F.cross_entropy(functional_call(self.net, weights, (images,)), labels)

        def task(images: Tensor, labels: Tensor, asked: Tensor, answers: Tensor) -> Tensor:
            weights = dict(self.net.named_parameters())
            losses = [loss(weights, asked, answers)]
            for _ in range(self.steps):
                slopes = grad(loss)(weights, images, labels)
                weights = {name: w - self.rate * slopes[name] for name, w in weights.items()}
                losses.append(loss(weights, asked, answers))
            return torch.stack(losses)

        return vmap(task)(support, known, query, wanted)
