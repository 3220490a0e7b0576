"""Attention, feed-forward layers and their residual blocks, shared by several transformers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Multi-head attention of ``x`` (B, T, D) on ``memory`` (B, S, M), itself if None.

    ``mask`` broadcasts to (B, heads, T, S) and is True where attention is allowed. The softmax
    is written out, with its dropout, unless ``fused`` asks for PyTorch's operator.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        memory: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        fused: bool = False,
    ) -> None:
        super().__init__()
        memory = width if memory is None else memory
        self.heads, self.fused, self.dropout = heads, fused, dropout
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(memory, width, bias=bias)
        self.value = nn.Linear(memory, width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias if out_bias is None else out_bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        source = x if memory is None else memory
        query, key, value = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in (self.query(x), self.key(source), self.value(source))
        )
        drop = self.dropout if self.training else 0.0
        if self.fused:
            out = F.scaled_dot_product_attention(query, key, value, mask, drop, is_causal=causal)
        else:
            scores = query @ key.transpose(2, 3) / query.shape[3] ** 0.5
            if causal:
                allowed = torch.ones(scores.shape[2:], dtype=torch.bool, device=x.device).tril()
                mask = allowed if mask is None else mask & allowed
            if mask is not None:
                scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            out = F.dropout(scores.softmax(dim=3), drop) @ value
        return self.out(out.transpose(1, 2).flatten(2))


def feed_forward(width: int, inner: int, act: nn.Module, dropout: float = 0.0) -> nn.Sequential:
    """Two linear layers with an activation between them."""
    return nn.Sequential(nn.Linear(width, inner), act, nn.Dropout(dropout), nn.Linear(inner, width))


class Layer(nn.Module):
    """Self-attention, attention on a memory where ``cross``, feed-forward; each with a shortcut.

    Norms stand behind the shortcuts (arXiv 1706.03762), or in front of each part with ``pre``.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        act: nn.Module | None = None,
        pre: bool = False,
        cross: bool = False,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.1,
        fused: bool = False,
    ) -> None:
        super().__init__()
        self.pre = pre
        options = {"bias": bias, "out_bias": out_bias, "dropout": dropout, "fused": fused}
        self.attention = Attention(width, heads, **options)  # type: ignore[arg-type]
        self.cross = Attention(width, heads, **options) if cross else None  # type: ignore[arg-type]
        self.feed = feed_forward(width, inner, nn.ReLU() if act is None else act)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.drop = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        x = self._part(0, x, lambda y: self.attention(y, mask=mask, causal=causal))
        if self.cross is not None:
            cross = self.cross
            x = self._part(1, x, lambda y: cross(y, memory, mask=memory_mask))
        return self._part(len(self.norms) - 1, x, self.feed)

    def _part(self, index: int, x: Tensor, part) -> Tensor:  # type: ignore[no-untyped-def]
        norm = self.norms[index]
        if self.pre:
            return x + self.drop(part(norm(x)))
        return norm(x + self.drop(part(x)))
