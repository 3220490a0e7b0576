"""Recurrent layers: ``nn.LSTM`` alone, and sequence taggers on ``nn.LSTM`` and ``nn.GRU``.

Other backends leave recurrent modules to eager unless ``allow_rnn`` is set, so that of a tagger
they would see only the embedding and the last layer. The layer alone is as users have it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Entry, Inputs

VOCABULARY, TAGS = 500, 12


class Tagger(nn.Module):
    """Token ids (N, T) to tag scores (N, T, tags) through a two-way recurrent layer."""

    def __init__(self, kind: type[nn.RNNBase], width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.recurrent = kind(width, width, num_layers=layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.recurrent(self.embedding(ids))
        return self.head(states).log_softmax(-1)


def _build(kind: type[nn.RNNBase]) -> Callable[[bool], nn.Module]:
    return lambda small: Tagger(kind, 16, 1) if small else Tagger(kind, 128, 2)


def _inputs(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    return Inputs((torch.randint(VOCABULARY, (batch, 6 if small else 32), generator=generator),))


def _layers(small: bool) -> nn.Module:
    return nn.LSTM(8, 16, 2) if small else nn.LSTM(128, 256, 2)


def _sequences(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    steps, features = (6, 8) if small else (50, 128)
    return Inputs((torch.randn(steps, batch, features, generator=generator),))


_ALLOW = {"allow_rnn": True}

ENTRIES = (
    Entry("lstm", _layers, _sequences, "recurrent", 8, 2),
    Entry("lstm_tagger", _build(nn.LSTM), _inputs, "recurrent", 8, 2, _ALLOW),
    Entry("gru_tagger", _build(nn.GRU), _inputs, "recurrent", 8, 2, _ALLOW),
)
