"""nanoGPT: GPT-2 (Radford et al., 2019) in Karpathy's compact form, PyTorch's fused attention.

Nothing is simplified; output and word embedding share their weight.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchbench_configs.models.transformer import Layer


class NanoGpt(nn.Module):
    """Words (B, S) to logits: (B, S, V) in training, (B, 1, V) of the last position otherwise."""

    def __init__(
        self,
        words: int = 50304,
        longest: int = 1024,
        width: int = 768,
        heads: int = 12,
        depth: int = 12,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(longest, width)
        self.drop = nn.Dropout(0.0)
        self.layers = nn.ModuleList(
            Layer(width, heads, 4 * width, act=nn.GELU(), pre=True, dropout=0.0, fused=True)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                last = name.endswith(("out.weight", "feed.3.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * depth) ** 0.5 if last else 0.02)

    def forward(self, words: Tensor) -> Tensor:
        positions = torch.arange(words.shape[1], device=words.device)
        x = self.drop(self.words(words) + self.positions(positions))
        for layer in self.layers:
            x = layer(x, causal=True)
        return self.head(self.norm(x) if self.training else self.norm(x)[:, -1:])


def loss(logits: Tensor, words: Tensor) -> Tensor:
    """Cross entropy of the following words (B, S)."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten())
