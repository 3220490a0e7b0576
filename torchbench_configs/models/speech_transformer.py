"""Speech-Transformer (Dong et al., ICASSP 2018, doi 10.1109/ICASSP.2018.8462506).

Six layers each way over low-frame-rate filter banks (four stacked frames of 80); the output
projection shares the embedding. Simplified: all utterances of a batch have full length, so there
are no padding masks.
"""

from __future__ import annotations

from torch import Tensor, nn

from torchbench_configs.models.blocks import sinusoids
from torchbench_configs.models.transformer import Layer


class SpeechTransformer(nn.Module):
    """Features (B, T, 320) and characters (B, U) to logits (B, U, V)."""

    def __init__(
        self, characters: int, features: int = 320, width: int = 512, heads: int = 8, depth: int = 6
    ) -> None:
        super().__init__()
        self.width = width
        self.enter = nn.Sequential(nn.Linear(features, width), nn.LayerNorm(width))
        self.register_buffer("positions", sinusoids(5000, width), persistent=False)
        self.characters = nn.Embedding(characters, width)
        nn.init.normal_(self.characters.weight, std=width**-0.5)
        self.drop = nn.Dropout(0.1)
        self.encoder = nn.ModuleList(Layer(width, heads, 4 * width) for _ in range(depth))
        self.decoder = nn.ModuleList(
            Layer(width, heads, 4 * width, cross=True) for _ in range(depth)
        )

    def forward(self, features: Tensor, characters: Tensor) -> Tensor:
        memory = self.drop(self.enter(features) + self.positions[: features.shape[1]])
        for layer in self.encoder:
            memory = layer(memory)
        x = self.characters(characters) * self.width**0.5
        x = self.drop(x + self.positions[: characters.shape[1]])
        for layer in self.decoder:
            x = layer(x, None, memory, causal=True)
        return x @ self.characters.weight.T


def loss(logits: Tensor, characters: Tensor) -> Tensor:
    """Cross entropy with label smoothing 0.1; characters (B, U)."""
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), characters.flatten(), label_smoothing=0.1
    )
