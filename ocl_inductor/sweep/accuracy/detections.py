"""Results of a detector: a set, whatever order rounding gave it.

A detector lists its best hundred boxes by score. With random weights many scores are alike to the
last digits, and eager in float32 already lists them in another order than in float64. What the
model found is the set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

#: Scores (B, N), boxes (B, N, 4) and labels (B, N); what else there is has a row a detection too.
SCORES, BOXES, LABELS = "out[0]", "out[1]", "out[2]"
#: Pixels: more than any two boxes of one image are apart.
_ANOTHER_CLASS = 1e9


def in_order_of(reference: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, object]:
    """``other`` with its detections in the order of ``reference``.

    Each detection of ``reference`` in turn takes the nearest box that is left, of its own class
    where there is one. Nothing is dropped, so that a detection without a counterpart still
    differs from what it was given. Results that are no detections stay as they are.
    """
    if any(not _alike(reference.get(n), other.get(n)) for n in (SCORES, BOXES, LABELS)):
        return dict(other)
    images = [
        _nearest(*(side[name][image] for name in (BOXES, LABELS) for side in (reference, other)))
        for image in range(reference[SCORES].shape[0])
    ]
    order = torch.stack(images)
    return {name: _ordered(value, order) for name, value in other.items()}


def _alike(one: Any, other: Any) -> bool:
    tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return tensors and one.shape == other.shape and one.ndim >= 2


def _nearest(
    boxes: torch.Tensor, others: torch.Tensor, labels: torch.Tensor, other_labels: torch.Tensor
) -> torch.Tensor:
    """For each of the boxes (N, 4) in turn the index of one of the others, each used once."""
    apart = (boxes.double()[:, None] - others.double()[None]).abs().amax(dim=2)
    apart += _ANOTHER_CLASS * (labels[:, None] != other_labels[None])
    apart = apart.nan_to_num(nan=2 * _ANOTHER_CLASS)
    chosen = []
    for row in range(len(boxes)):
        chosen.append(int(apart[row].argmin()))
        apart[:, chosen[-1]] = torch.inf
    return torch.tensor(chosen)


def _ordered(value: object, order: torch.Tensor) -> object:
    if not isinstance(value, torch.Tensor) or value.shape[:2] != order.shape:
        return value
    return torch.stack([v[o] for v, o in zip(value, order, strict=True)])
