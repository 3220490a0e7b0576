"""Example inputs of detectors: an image, and in training four boxes with classes and masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_BOXES = 4

Inputs = tuple[tuple[Tensor, ...], dict[str, Any]]


def plain(batch: int, sizes: Mapping[str, int], generator: torch.Generator) -> Inputs:
    """Image (B, 3, H, W), boxes (B, 4, 4) in pixels and classes (B, 4)."""
    height, width = sizes["H"], sizes["W"]
    image = torch.randn(batch, 3, height, width, generator=generator)
    low = torch.rand(batch, _BOXES, 2, generator=generator) * 0.5
    extent = torch.rand(batch, _BOXES, 2, generator=generator) * 0.3 + 0.15
    scale = torch.tensor([width, height])
    boxes = torch.cat([low * scale, (low + extent) * scale], dim=2)
    labels = torch.randint(80, (batch, _BOXES), generator=generator)
    return (image, boxes, labels), {}


def with_masks(batch: int, sizes: Mapping[str, int], generator: torch.Generator) -> Inputs:
    """The same and masks (B, 4, 28, 28) of zeros and ones, cut out by the boxes."""
    args, kwargs = plain(batch, sizes, generator)
    masks = (torch.rand(batch, _BOXES, 28, 28, generator=generator) < 0.5).float()
    return (*args, masks), kwargs
