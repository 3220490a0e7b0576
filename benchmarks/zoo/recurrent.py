"""Recurrent layers: ``nn.LSTM`` alone, and sequence taggers on ``nn.LSTM`` and ``nn.GRU``.

Other backends leave recurrent modules to eager unless ``allow_rnn`` is set, so that of a tagger
they would see only the embedding and the last layer. The layer alone is as users have it.
"""

from __future__ import annotations

import torch

from benchmarks.zoo.entry import Entry, Inputs

VOCABULARY, TAGS = 500, 12


def _ids(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    return Inputs((torch.randint(VOCABULARY, (batch, 6 if small else 32), generator=generator),))


def _sequences(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    steps, features = (6, 8) if small else (50, 128)
    return Inputs((torch.randn(steps, batch, features, generator=generator),))


def _tagger(name: str, kind: str) -> Entry:
    return Entry(
        name,
        "recurrent",
        "torchbench_configs.models.tagger:Tagger",
        _ids,
        {"kind": kind, "vocabulary": VOCABULARY, "tags": TAGS, "width": 128, "layers": 2},
        {"width": 16, "layers": 1},
        batch=8,
        dynamo_config={"allow_rnn": True},
    )


ENTRIES = (
    Entry(
        "lstm",
        "recurrent",
        "torch.nn:LSTM",
        _sequences,
        {"input_size": 128, "hidden_size": 256, "num_layers": 2},
        {"input_size": 8, "hidden_size": 16},
        batch=8,
    ),
    _tagger("lstm_tagger", "LSTM"),
    _tagger("gru_tagger", "GRU"),
)
