"""BERT as TorchBench's ``BERT_pytorch`` has it (arXiv 1810.04805, codertimo's implementation).

Twelve layers with norms in front; sinusoidal positions and segment embeddings; two heads, for
masked words and the next sentence. Nothing is simplified.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import sinusoids
from torchbench_configs.models.transformer import Layer


class BertPytorch(nn.Module):
    """Words and segments (B, S) to log-probabilities: next sentence (B, 2), words (B, S, V)."""

    def __init__(
        self, words: int, width: int = 768, layers: int = 12, heads: int = 12, longest: int = 512
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.segments = nn.Embedding(3, width, padding_idx=0)
        self.register_buffer("positions", sinusoids(longest, width), persistent=False)
        self.drop = nn.Dropout(0.1)
        self.layers = nn.ModuleList(
            Layer(width, heads, 4 * width, act=nn.GELU(), pre=True) for _ in range(layers)
        )
        self.next_sentence = nn.Linear(width, 2)
        self.masked_word = nn.Linear(width, words)

    def forward(self, words: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        mask = (words > 0)[:, None, None, :]
        x = self.words(words) + self.positions[: words.shape[1]] + self.segments(segments)
        x = self.drop(x)
        for layer in self.layers:
            x = layer(x, mask)
        return (
            torch.log_softmax(self.next_sentence(x[:, 0]), dim=1),
            torch.log_softmax(self.masked_word(x), dim=2),
        )


def loss(outputs: tuple[Tensor, Tensor], words: Tensor) -> Tensor:
    """Negative log-likelihood of masked words (B, S), and of "is the next sentence"."""
    following, masked = outputs
    likelihood = masked.gather(2, words[..., None]).mean()
    return -likelihood - following[:, 1].mean()
