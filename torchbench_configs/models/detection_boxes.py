"""Boxes for detectors, in plain PyTorch with results of fixed size.

torchvision's ``nms`` and ``roi_align`` are compiled operators that a CPU build of torch may lack,
and non-maximum suppression that returns as many boxes as it kept would cut a graph in two.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_LARGEST = 4.135  # logarithm of the largest growth of a box in one step, 1000 / 16
_ROUNDS = 12


def anchors(height: int, width: int, stride: int, sizes: Sequence[int], like: Tensor) -> Tensor:
    """Boxes (height * width * 3 * len(sizes), 4) of three shapes around every cell."""
    y = torch.arange(height, device=like.device, dtype=like.dtype) * stride
    x = torch.arange(width, device=like.device, dtype=like.dtype) * stride
    centres = torch.stack([x.expand(height, width), y[:, None].expand(height, width)], dim=2)
    halves = [(s / 2 / r**0.5, s / 2 * r**0.5) for s in sizes for r in (0.5, 1.0, 2.0)]
    half = torch.tensor(halves, device=like.device, dtype=like.dtype)
    low, high = centres[:, :, None] - half, centres[:, :, None] + half
    return torch.cat([low, high], dim=3).flatten(0, 2)


def decode(boxes: Tensor, deltas: Tensor, weights: tuple[float, float] = (1.0, 1.0)) -> Tensor:
    """Boxes (..., 4) moved and scaled by deltas (..., 4), as in Fast R-CNN (arXiv 1504.08083)."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = boxes[..., :2] + 0.5 * size + deltas[..., :2] / weights[0] * size
    grown = (deltas[..., 2:] / weights[1]).clamp(max=_LARGEST).exp() * size
    return torch.cat([centre - 0.5 * grown, centre + 0.5 * grown], dim=-1)


def encode(boxes: Tensor, wanted: Tensor, weights: tuple[float, float] = (1.0, 1.0)) -> Tensor:
    """The deltas that turn ``boxes`` into ``wanted``."""
    size, target = boxes[..., 2:] - boxes[..., :2], wanted[..., 2:] - wanted[..., :2]
    moved = (wanted[..., :2] + 0.5 * target - boxes[..., :2] - 0.5 * size) / size
    grown = (target / size).log()
    return torch.cat([moved * weights[0], grown * weights[1]], dim=-1)


def clip(boxes: Tensor, height: int, width: int) -> Tensor:
    """Boxes inside the image."""
    x = boxes[..., 0::2].clamp(0, width)
    y = boxes[..., 1::2].clamp(0, height)
    return torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1]], dim=-1)


def overlaps(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of boxes (..., N, 4) with boxes (..., M, 4): (..., N, M)."""
    low = torch.maximum(first[..., :, None, :2], second[..., None, :, :2])
    high = torch.minimum(first[..., :, None, 2:], second[..., None, :, 2:])
    common = (high - low).clamp(min=0).prod(dim=-1)
    areas = [(b[..., 2:] - b[..., :2]).clamp(min=0).prod(dim=-1) for b in (first, second)]
    union = areas[0][..., :, None] + areas[1][..., None, :] - common
    return common / union.clamp(min=1e-6)


def survivors(boxes: Tensor, threshold: float) -> Tensor:
    """Which of boxes (..., N, 4), best first, greedy non-maximum suppression keeps: (..., N).

    The greedy choice is the fixed point of "kept unless a better one that is kept overlaps".
    Rounds settle one link of a chain of overlaps each, so that a fixed number does for the chains
    that occur.
    """
    count = boxes.shape[-2]
    better = torch.ones(count, count, dtype=torch.bool, device=boxes.device).tril(-1)
    over = (overlaps(boxes, boxes) > threshold) & better
    keep = torch.ones(boxes.shape[:-1], dtype=torch.bool, device=boxes.device)
    for _ in range(_ROUNDS):
        keep = ~(over & keep[..., None, :]).any(dim=-1)
    return keep


def take(values: Tensor, index: Tensor) -> Tensor:
    """Rows ``index`` (B, K) of values (B, N, ...)."""
    shape = (*index.shape, *values.shape[2:])
    return values.gather(1, index.view(*index.shape, *[1] * (values.ndim - 2)).expand(shape))


def best(scores: Tensor, boxes: Tensor, count: int, threshold: float) -> tuple[Tensor, Tensor]:
    """Scores (B, N) and boxes (B, N, 4), suppressed: the best ``count``, those dropped last.

    A dropped box has score 0. N is at least ``count``.
    """
    order = scores.argsort(dim=1, descending=True)
    scores, boxes = scores.gather(1, order), take(boxes, order)
    scores = torch.where(survivors(boxes, threshold), scores, torch.zeros_like(scores))
    top = scores.topk(count, dim=1)
    return top.values, take(boxes, top.indices)


def roi_align(maps: Sequence[Tensor], strides: Sequence[int], boxes: Tensor, size: int) -> Tensor:
    """RoIAlign (arXiv 1703.06870): (B, R, C, size, size), four bilinear samples a cell.

    With several ``maps``, finest first, each box (B, R, 4) reads the one that suits its size
    (arXiv 1612.03144, equation 1).
    """
    batch, count, _ = boxes.shape
    rows = torch.cat([m.flatten(2) for m in maps], dim=2).transpose(1, 2)
    level = torch.zeros(batch, count, dtype=torch.int64, device=boxes.device)
    if len(maps) > 1:
        extent = (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1).clamp(min=1e-6).sqrt()
        level = (extent / 224 + 1e-8).log2().floor().clamp(-2, len(maps) - 3).long() + 2
    facts, start = [], 0
    for m, stride in zip(maps, strides, strict=True):
        facts.append((m.shape[2], m.shape[3], start, 1 / stride))
        start += m.shape[2] * m.shape[3]
    table = torch.tensor(facts, device=boxes.device, dtype=boxes.dtype)[level][..., None]
    heights, widths, starts, scale = table.unbind(2)
    steps = (torch.arange(2 * size, device=boxes.device, dtype=boxes.dtype) + 0.5) / (2 * size)
    low, extent = boxes[..., :2], boxes[..., 2:] - boxes[..., :2]
    xs = ((low[..., :1] + extent[..., :1] * steps) * scale - 0.5).clamp(min=0)
    ys = ((low[..., 1:] + extent[..., 1:] * steps) * scale - 0.5).clamp(min=0)
    xs, ys = torch.minimum(xs, widths - 1), torch.minimum(ys, heights - 1)
    sampled: Tensor | float = 0.0
    for bottom in (0, 1):
        y = torch.minimum(ys.floor() + bottom, heights - 1)
        share_y = (ys - ys.floor()) if bottom else (1 - ys + ys.floor())
        for right in (0, 1):
            x = torch.minimum(xs.floor() + right, widths - 1)
            share_x = (xs - xs.floor()) if right else (1 - xs + xs.floor())
            index = (starts + y * widths)[..., :, None] + x[..., None, :]
            part = take(rows, index.long().flatten(1))
            share = (share_y[..., :, None] * share_x[..., None, :]).flatten(1)
            sampled = sampled + part * share[..., None]
    assert isinstance(sampled, Tensor)
    cells = sampled.view(batch, count, size, 2, size, 2, -1).mean(dim=(3, 5))
    return cells.permute(0, 1, 4, 2, 3)
