"""A graph network: messages averaged, then weighed by attention (GAT, arXiv 1710.10903)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GraphNet(nn.Module):
    """Two rounds of message passing over edges (2, E), then a mean over each graph's nodes.

    The first round averages messages (index_add), the second weighs them by attention
    normalised over each node's incoming edges (scatter_add).
    """

    def __init__(self, features: int, width: int, classes: int = 5) -> None:
        super().__init__()
        self.encode = nn.Linear(features, width)
        self.message = nn.Linear(2 * width, width)
        self.attention = nn.Linear(2 * width, 1)
        self.value = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        x = self.encode(x).relu()
        pair = torch.cat([x.index_select(0, source), x.index_select(0, target)], dim=1)
        messages = self.message(pair).relu()
        degree = x.new_zeros(x.shape[0]).index_add(0, target, torch.ones_like(messages[:, 0]))
        total = torch.zeros_like(x).index_add(0, target, messages)
        x = x + total / degree.clamp(min=1).unsqueeze(1)

        pair = torch.cat([x.index_select(0, source), x.index_select(0, target)], dim=1)
        score = nn.functional.leaky_relu(self.attention(pair), 0.2).exp()
        norm = x.new_zeros(x.shape[0], 1).scatter_add(0, target.unsqueeze(1), score)
        weighed = score / norm.index_select(0, target) * self.value(x)[source]
        spread = target.unsqueeze(1).expand_as(weighed)
        x = (x + torch.zeros_like(x).scatter_add(0, spread, weighed)).tanh()
        return self.head(x).log_softmax(-1)
