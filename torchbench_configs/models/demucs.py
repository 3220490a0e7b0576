"""Demucs: music source separation on waveforms (Défossez et al., arXiv 1911.13254).

Six strided convolutions each way with gated linear units, a bidirectional LSTM between them,
added skips. Simplified: the random shift that TorchBench applies first is left out; the input has
a valid length already.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Demucs(nn.Module):
    """Sources (B, 5, 2, T), the first of them unused, to estimates (B, 4, 2, T')."""

    def __init__(self, width: int = 64, depth: int = 6, rescale: float = 0.1) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        inputs = 2
        for level in range(depth):
            self.encoder.append(
                nn.Sequential(
                    nn.Conv1d(inputs, width, 8, 4),
                    nn.ReLU(),
                    nn.Conv1d(width, 2 * width, 1),
                    nn.GLU(dim=1),
                )
            )
            decode = nn.Sequential(
                nn.Conv1d(width, 2 * width, 3),
                nn.GLU(dim=1),
                nn.ConvTranspose1d(width, inputs if level else 8, 8, 4),
            )
            if level:
                decode.append(nn.ReLU())
            self.decoder.insert(0, decode)
            inputs, width = width, 2 * width
        self.recurrent = nn.LSTM(inputs, inputs, num_layers=2, bidirectional=True)
        self.narrow = nn.Linear(2 * inputs, inputs)
        for module in self.modules():
            if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
                scale = (module.weight.detach().std() / rescale) ** 0.5
                module.weight.data /= scale
                assert module.bias is not None
                module.bias.data /= scale

    def forward(self, streams: Tensor) -> Tensor:
        x = streams[:, 1:].sum(dim=1)
        skips = []
        for encode in self.encoder:
            x = encode(x)
            skips.append(x)
        x = self.narrow(self.recurrent(x.permute(2, 0, 1))[0]).permute(1, 2, 0)
        for decode in self.decoder:
            x = decode(x + _trim(skips.pop(), x.shape[2]))
        return x.unflatten(1, (4, 2))


def _trim(x: Tensor, length: int) -> Tensor:
    """The middle ``length`` steps of the last dimension."""
    first = (x.shape[-1] - length) // 2
    return x[..., first : first + length]


def loss(estimates: Tensor) -> Tensor:
    """Mean absolute distance to silence, which stands in for the true sources."""
    return torch.mean(estimates.abs())
