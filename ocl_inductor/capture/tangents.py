"""Results whose own elements overlap in memory: their gradients have to be dense."""

from __future__ import annotations

import torch


def may_overlap(x: torch.Tensor) -> bool:
    """Whether elements of ``x``, of static sizes, may share memory; conservative."""
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(x.stride(), x.shape) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False
