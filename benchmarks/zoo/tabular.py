"""Models that are mostly gathers and scatters: recommendation and a graph network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Entry, Inputs
from torchbench_configs.models.blocks import mlp


class Dlrm(nn.Module):
    """Dense features (N, 13) and multi-hot ids (N, tables, hot) to a click probability (N,).

    The interaction is the lower triangle of all dot products between feature vectors.
    """

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.bottom = mlp((13, 64, width))
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        for table in self.tables:
            # Unit variance would drive the sigmoid into saturation, where errors vanish.
            nn.init.normal_(table.weight, std=width**-0.5)
        pairs = tables * (tables + 1) // 2
        self.top = mlp((width + pairs, 64, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, offset=-1))

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        x = self.bottom(dense)
        looked_up = [table(ids[:, i]).sum(1) for i, table in enumerate(self.tables)]
        features = torch.stack([x, *looked_up], dim=1)
        products = features @ features.transpose(1, 2)
        interactions = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, interactions], dim=1)).sigmoid().squeeze(-1)


def _dlrm(small: bool) -> nn.Module:
    return Dlrm(4, 50, 8) if small else Dlrm(26, 10_000, 32)


def _dlrm_inputs(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    tables, rows = (4, 50) if small else (26, 10_000)
    ids = torch.randint(rows, (batch, tables, 3), generator=generator)
    return Inputs((torch.randn(batch, 13, generator=generator), ids))


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


def _graph(small: bool) -> nn.Module:
    return GraphNet(7, 16) if small else GraphNet(64, 128)


def _graph_inputs(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    nodes, links, features = (20, 60, 7) if small else (2000, 16_000, 64)
    x = torch.randn(batch * nodes, features, generator=generator)
    edges = torch.randint(batch * nodes, (2, batch * links), generator=generator)
    return Inputs((x, edges))


ENTRIES = (
    Entry("dlrm", _dlrm, _dlrm_inputs, "tabular", batch=128, small_batch=4),
    Entry("graph_net", _graph, _graph_inputs, "tabular"),
)
