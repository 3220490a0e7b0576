"""The transformer of "Attention Is All You Need" (Vaswani et al., arXiv 1706.03762).

The base model: six layers each way, width 512, eight heads; separate embeddings. Nothing is
simplified but the vocabularies, whose sizes the row gives.
"""

from __future__ import annotations

from torch import Tensor, nn

from torchbench_configs.models.blocks import sinusoids
from torchbench_configs.models.transformer import Layer


class _Stack(nn.Module):
    def __init__(self, words: int, width: int, heads: int, layers: int, cross: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=1)
        self.register_buffer("positions", sinusoids(200, width), persistent=False)
        self.drop = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.layers = nn.ModuleList(
            Layer(width, heads, 4 * width, cross=cross, bias=False) for _ in range(layers)
        )

    def embed(self, words: Tensor) -> Tensor:
        return self.norm(self.drop(self.words(words) + self.positions[: words.shape[1]]))


class Translator(nn.Module):
    """Source (B, S) and target (B, T) words to logits (B, T, V); word 1 is padding."""

    def __init__(self, words: int, width: int = 512, heads: int = 8, layers: int = 6) -> None:
        super().__init__()
        self.encoder = _Stack(words, width, heads, layers, cross=False)
        self.decoder = _Stack(words, width, heads, layers, cross=True)
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        source_mask = (source != 1)[:, None, None, :]
        target_mask = (target != 1)[:, None, None, :]
        memory = self.encoder.embed(source)
        for layer in self.encoder.layers:
            memory = layer(memory, source_mask)
        x = self.decoder.embed(target)
        for layer in self.decoder.layers:
            x = layer(x, target_mask, memory, source_mask, causal=True)
        return self.out(x)


def loss(logits: Tensor, words: Tensor) -> Tensor:
    """Cross entropy of the words (B, T) that should follow; logits (B, T, V)."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten(), ignore_index=1)
