"""Speaker encoder of ``tts_angular``: three LSTMs with projections (Wan et al., arXiv 1710.10467).

The loss compares embeddings of one speaker by angle (Chung et al., arXiv 2003.11982).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SpeakerEncoder(nn.Module):
    """Mel frames (B, T, 40) to unit vectors (B, 256)."""

    def __init__(
        self, inputs: int = 40, hidden: int = 768, width: int = 256, depth: int = 3
    ) -> None:
        super().__init__()
        sizes = [inputs] + [width] * (depth - 1)
        self.recurrent = nn.ModuleList(nn.LSTM(n, hidden, batch_first=True) for n in sizes)
        self.project = nn.ModuleList(nn.Linear(hidden, width, bias=False) for _ in sizes)

    def forward(self, x: Tensor) -> Tensor:
        for recurrent, project in zip(self.recurrent, self.project, strict=True):
            x = project(recurrent(x)[0])
        return F.normalize(x[:, -1], dim=1)


def loss(vectors: Tensor) -> Tensor:
    """Angular prototypical loss; (2 * S, W): two utterances a speaker, the first is the query."""
    queries, anchors = vectors[0::2], vectors[1::2]
    cosines = 10.0 * F.normalize(queries, dim=1) @ F.normalize(anchors, dim=1).T - 5.0
    return F.cross_entropy(cosines, torch.arange(len(queries), device=vectors.device))
