"""Attention that a model writes out, as passes/attention.py finds it: a function in FX graphs."""

from __future__ import annotations

import torch


def written_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    """``softmax(query @ key.T * scale + mask) @ value`` over (\\*batch, rows, width).

    Rows of -inf give NaN, unlike those of ``scaled_dot_product_attention``.
    """
    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ value
