"""Sequence taggers on ``nn.LSTM`` and ``nn.GRU``.

Dynamo leaves recurrent modules to eager unless ``allow_rnn`` is set, so the compiler would see
only the embedding and the last layer.
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


_ALLOW = {"allow_rnn": True}

ENTRIES = (
    Entry("lstm_tagger", _build(nn.LSTM), _inputs, "recurrent", 8, 2, _ALLOW),
    Entry("gru_tagger", _build(nn.GRU), _inputs, "recurrent", 8, 2, _ALLOW),
)
