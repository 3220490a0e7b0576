"""DLRM: Deep Learning Recommendation Model (Naumov et al., arXiv 1906.00091).

Simplified: the embedding bags give dense gradients where TorchBench's are sparse, and the tables
have the number of rows that the row of the sweep says. ``MultiHotDlrm`` has gathers and sums where
``Dlrm`` has bags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import mlp


def interactions(features: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Dot products of each pair (``rows``, ``columns``) of ``features`` (B, F, W), (B, pairs)."""
    products = features @ features.transpose(1, 2)
    return products[:, rows, columns]


class Dlrm(nn.Module):
    """Dense features (B, D) and bags of indices to a probability (B, 1).

    The indices of table ``t`` are ``indices[t]``, (B * L,), cut into bags by ``offsets[t]``, (B,).
    """

    def __init__(
        self, rows: Sequence[int], width: int, bottom: Sequence[int], top: Sequence[int]
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum") for n in rows)
        for table, count in zip(self.tables, rows, strict=True):
            nn.init.uniform_(table.weight, -(count**-0.5), count**-0.5)  # as in the published code
        self.bottom = mlp(bottom, nn.ReLU, nn.ReLU())
        features = len(rows) + 1
        pairs = torch.tril_indices(features, features, -1)
        self.register_buffer("first", pairs[0], persistent=False)
        self.register_buffer("second", pairs[1], persistent=False)
        self.top = mlp([width + pairs.shape[1], *top], nn.ReLU, nn.Sigmoid())

    def forward(self, dense: Tensor, offsets: Tensor, indices: Tensor) -> Tensor:
        x = self.bottom(dense)
        bags = [
            table(index, offset)
            for table, index, offset in zip(self.tables, indices, offsets, strict=True)
        ]
        stacked = torch.stack([x, *bags], dim=1)
        return self.top(torch.cat([x, interactions(stacked, self.first, self.second)], dim=1))


class MultiHotDlrm(nn.Module):
    """Dense features (B, 13) and ids (B, tables, hot) to a probability (B,)."""

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
        found = interactions(features, self.pairs[0], self.pairs[1])
        return self.top(torch.cat([x, found], dim=1)).sigmoid().squeeze(-1)


def example_inputs(
    batch: int, sizes: Mapping[str, int], generator: torch.Generator
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Dense features, bag offsets (T, B) and random indices (T, B * L)."""
    tables, length, rows = sizes["T"], sizes["L"], sizes["N"]
    dense = torch.rand(batch, sizes["D"], generator=generator)
    offsets = torch.arange(0, batch * length, length).repeat(tables, 1)
    indices = torch.randint(rows, (tables, batch * length), generator=generator)
    return (dense, offsets, indices), {}
