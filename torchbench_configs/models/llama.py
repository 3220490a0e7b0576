"""LLaMA (Touvron et al., arXiv 2302.13971) with a cache of keys and values, as TorchBench runs it.

RMSNorm, rotary positions, SwiGLU; width 512 and eight layers, TorchBench's own small defaults.
Rotations are written with real numbers instead of complex ones.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    """Division by the root mean square, and a scale."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rotations(width: int, length: int, base: float = 10000.0) -> Tensor:
    """Cosines and sines of rotary positions, (length, width / 2, 2)."""
    rates = base ** (-torch.arange(0, width, 2).float() / width)
    angles = torch.outer(torch.arange(length).float(), rates)
    return torch.stack([angles.cos(), angles.sin()], dim=2)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Neighbouring pairs of the last dimension rotated; x (B, S, heads, W)."""
    even, odd = x.unflatten(3, (-1, 2)).unbind(4)
    cos, sin = rotation[:, None].unbind(3)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=4).flatten(3)


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, batch: int, longest: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.attention_norm, self.feed_norm = RmsNorm(width), RmsNorm(width)
        shape = (batch, longest, heads, width // heads)
        self.register_buffer("keys", torch.zeros(shape), persistent=False)
        self.register_buffer("values", torch.zeros(shape), persistent=False)

    def forward(self, x: Tensor, rotation: Tensor, mask: Tensor, start: int) -> Tensor:
        batch, length, _ = x.shape
        y = self.attention_norm(x)
        query, key, value = (
            layer(y).unflatten(2, (self.heads, -1)) for layer in (self.query, self.key, self.value)
        )
        end = start + length
        self.keys[:batch, start:end] = rotate(key, rotation)
        self.values[:batch, start:end] = value
        query = rotate(query, rotation).transpose(1, 2)
        keys = self.keys[:batch, :end].transpose(1, 2)
        scores = query @ keys.transpose(2, 3) / query.shape[3] ** 0.5 + mask
        mixed = scores.softmax(dim=3) @ self.values[:batch, :end].transpose(1, 2)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.feed_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Words (B, S) that stand at ``start`` and behind it to logits of the last one, (B, V)."""

    def __init__(
        self,
        words: int = 32,
        width: int = 512,
        depth: int = 8,
        heads: int = 8,
        inner: int = 1536,
        batch: int = 32,
        longest: int = 1024,
        start: int = 1,
    ) -> None:
        super().__init__()
        self.start = start
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            _Layer(width, heads, inner, batch, longest) for _ in range(depth)
        )
        self.norm = RmsNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        table = rotations(width // heads, 2 * longest)
        self.register_buffer("rotation", table, persistent=False)

    def forward(self, words: Tensor) -> Tensor:
        length = words.shape[1]
        x = self.words(words)
        rotation = self.rotation[self.start : self.start + length]
        mask = torch.full((length, length), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        mask = F.pad(mask, [self.start, 0])
        for layer in self.layers:
            x = layer(x, rotation, mask, self.start)
        return self.head(self.norm(x)[:, -1])
