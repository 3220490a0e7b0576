"""Tacotron 2: text to mel spectrograms (Shen et al., arXiv 1712.05884), teacher-forced.

Encoder with three convolutions and a bidirectional LSTM, location-sensitive attention, two LSTM
cells a frame, five convolutions behind. Simplified: utterances have full length (no packing), the
dropout of the pre-net follows the mode as all other dropouts do.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(inputs, outputs, 5, padding=2), nn.BatchNorm1d(outputs))


class Attention(nn.Module):
    """Location-sensitive attention (arXiv 1506.07503) over a memory (B, S, M)."""

    def __init__(self, query: int, memory: int, width: int = 128, filters: int = 32) -> None:
        super().__init__()
        self.query = nn.Linear(query, width, bias=False)
        self.memory = nn.Linear(memory, width, bias=False)
        self.where = nn.Conv1d(2, filters, 31, padding=15, bias=False)
        self.location = nn.Linear(filters, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
        """New weights (B, S) from the last and the summed ones, (B, 2, S)."""
        place = self.location(self.where(weights).transpose(1, 2))
        energy = self.energy(torch.tanh(self.query(query)[:, None] + place + keys))
        return energy.squeeze(2).softmax(dim=1)


class Decoder(nn.Module):
    """One mel frame a step from a memory (B, S, M) and the true frames before it."""

    def __init__(self, memory: int = 512, mels: int = 80, hidden: int = 1024) -> None:
        super().__init__()
        self.mels, self.hidden = mels, hidden
        self.prenet = nn.ModuleList(
            [nn.Linear(mels, 256, bias=False), nn.Linear(256, 256, bias=False)]
        )
        self.first = nn.LSTMCell(256 + memory, hidden)
        self.attention = Attention(hidden, memory)
        self.second = nn.LSTMCell(hidden + memory, hidden)
        self.frame = nn.Linear(hidden + memory, mels)
        self.gate = nn.Linear(hidden + memory, 1)
        self.prenet_dropout, self.cell_dropout = 0.5, 0.1

    def forward(self, memory: Tensor, mels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Frames (B, mels, T), gates (B, T) and alignments (B, T, S)."""
        batch, length, _ = memory.shape
        frames = F.pad(mels, [1, 0])[..., :-1].permute(2, 0, 1)
        for layer in self.prenet:
            frames = F.dropout(F.relu(layer(frames)), self.prenet_dropout, self.training)
        keys = self.attention.memory(memory)
        h1 = c1 = h2 = c2 = memory.new_zeros(batch, self.hidden)
        weights = total = memory.new_zeros(batch, length)
        context = memory.new_zeros(batch, memory.shape[2])
        outputs, gates, alignments = [], [], []
        for frame in frames.unbind(0):
            h1, c1 = self.first(torch.cat([frame, context], dim=1), (h1, c1))
            h1 = F.dropout(h1, self.cell_dropout, self.training)
            weights = self.attention(h1, keys, torch.stack([weights, total], dim=1))
            total = total + weights
            context = (weights[:, None] @ memory).squeeze(1)
            h2, c2 = self.second(torch.cat([h1, context], dim=1), (h2, c2))
            h2 = F.dropout(h2, self.cell_dropout, self.training)
            both = torch.cat([h2, context], dim=1)
            outputs.append(self.frame(both))
            gates.append(self.gate(both).squeeze(1))
            alignments.append(weights)
        return torch.stack(outputs, 2), torch.stack(gates, 1), torch.stack(alignments, 1)


class Tacotron2(nn.Module):
    """Symbols (B, S) and mels (B, 80, T) to mels, refined mels, gates and alignments."""

    def __init__(self, symbols: int = 148, width: int = 512, mels: int = 80) -> None:
        super().__init__()
        self.symbols = nn.Embedding(symbols, width)
        self.convolutions = nn.ModuleList(_conv(width, width) for _ in range(3))
        self.recurrent = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.decoder = Decoder(width, mels)
        self.dropout = 0.5
        sizes = [mels, 512, 512, 512, 512, mels]
        self.postnet = nn.ModuleList(_conv(a, b) for a, b in pairwise(sizes))

    def forward(self, symbols: Tensor, mels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x = self.symbols(symbols).transpose(1, 2)
        for layer in self.convolutions:
            x = F.dropout(F.relu(layer(x)), self.dropout, self.training)
        memory = self.recurrent(x.transpose(1, 2))[0]
        frames, gates, alignments = self.decoder(memory, mels)
        x = frames
        for layer in self.postnet[:-1]:
            x = F.dropout(torch.tanh(layer(x)), self.dropout, self.training)
        refined = frames + F.dropout(self.postnet[-1](x), self.dropout, self.training)
        return frames, refined, gates, alignments


def loss(outputs: tuple[Tensor, ...], mels: Tensor) -> Tensor:
    """Squared errors of both spectrograms (B, 80, T), and of gates that stay closed."""
    frames, refined, gates, _ = outputs
    open_gates = F.binary_cross_entropy_with_logits(gates, torch.zeros_like(gates))
    return F.mse_loss(frames, mels) + F.mse_loss(refined, mels) + open_gates
