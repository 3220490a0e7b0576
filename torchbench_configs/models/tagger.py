"""A tagger of sequences on a two-way recurrent layer (arXiv 1508.01991, without its CRF)."""

from __future__ import annotations

from torch import Tensor, nn


class Tagger(nn.Module):
    """Token ids (N, T) to tag scores (N, T, tags); ``kind``: "LSTM", "GRU" or "RNN" of torch.nn."""

    def __init__(self, kind: str, vocabulary: int, tags: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        recurrent: type[nn.RNNBase] = getattr(nn, kind)
        self.recurrent = recurrent(
            width, width, num_layers=layers, batch_first=True, bidirectional=True
        )
        self.head = nn.Linear(2 * width, tags)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.recurrent(self.embedding(ids))
        return self.head(states).log_softmax(-1)
