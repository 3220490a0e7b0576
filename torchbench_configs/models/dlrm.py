"""DLRM: Deep Learning Recommendation Model (Naumov et al., arXiv 1906.00091).

Simplified: the embedding bags give dense gradients where TorchBench's are sparse, and the tables
have the number of rows that the row of the sweep says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import mlp


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
        products = stacked @ stacked.transpose(1, 2)
        return self.top(torch.cat([x, products[:, self.first, self.second]], dim=1))


def example_inputs(
    batch: int, sizes: Mapping[str, int], generator: torch.Generator
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Dense features, bag offsets (T, B) and random indices (T, B * L)."""
    tables, length, rows = sizes["T"], sizes["L"], sizes["N"]
    dense = torch.rand(batch, sizes["D"], generator=generator)
    offsets = torch.arange(0, batch * length, length).repeat(tables, 1)
    indices = torch.randint(rows, (tables, batch * length), generator=generator)
    return (dense, offsets, indices), {}
