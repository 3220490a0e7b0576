"""NVIDIA's DeepRecommender: a deep autoencoder of ratings (arXiv 1708.01715).

Decoder and encoder have separate weights. Nothing is simplified.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import mlp


def autoencoder(items: int, hidden: Sequence[int], dropout: float) -> nn.Sequential:
    """(B, items) ratings to (B, items): SELU everywhere, dropout on the code."""
    sizes = [items, *hidden]
    encoder = mlp(sizes, nn.SELU, nn.SELU())
    return nn.Sequential(encoder, nn.Dropout(dropout), mlp(sizes[::-1], nn.SELU, nn.SELU()))


def masked_loss(outputs: Tensor, ratings: Tensor) -> Tensor:
    """Mean squared error over the items that were rated, (B, items)."""
    rated = (ratings > 0).to(outputs.dtype)
    return ((outputs - ratings) * rated).square().sum() / torch.clamp(rated.sum(), min=1.0)
