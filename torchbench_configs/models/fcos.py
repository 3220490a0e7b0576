"""FCOS: detection without anchors (Tian et al., arXiv 1904.01355), as in detectron2's zoo.

ResNet-50 with a pyramid of strides 8 to 128, heads of four convolutions with group norms shared
by the levels. Simplified: results have a fixed number; every location enters the losses, assigned
to the box it lies in regardless of size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchbench_configs.models.blocks import conv_block
from torchbench_configs.models.detection_backbone import Pyramid
from torchbench_configs.models.detection_boxes import survivors, take

_CANDIDATES = 300


def _tower(width: int) -> nn.Sequential:
    return nn.Sequential(
        *(
            conv_block(width, width, 3, norm=lambda n: nn.GroupNorm(32, n), bias=True)
            for _ in range(4)
        )
    )


class Fcos(nn.Module):
    """Images (B, 3, H, W) to scores (B, 100), boxes (B, 100, 4) and classes (B, 100).

    In training, with boxes (B, G, 4) and classes (B, G), the sum of the three losses.
    """

    def __init__(self, classes: int = 80, width: int = 256) -> None:
        super().__init__()
        self.classes = classes
        self.backbone = Pyramid(50, width, one_stage=True)
        self.class_tower, self.box_tower = _tower(width), _tower(width)
        self.score = nn.Conv2d(width, classes, 3, padding=1)
        self.sides = nn.Conv2d(width, 4, 3, padding=1)
        self.centre = nn.Conv2d(width, 1, 3, padding=1)
        self.scales = nn.Parameter(torch.ones(5))

    def forward(
        self, image: Tensor, boxes: Tensor | None = None, labels: Tensor | None = None
    ) -> tuple[Tensor, ...] | Tensor:
        scores, sides, centres, places = [], [], [], []
        for level, x in enumerate(self.backbone(image)):
            stride = self.backbone.strides[level]
            scores.append(self.score(self.class_tower(x)).flatten(2))
            y = self.box_tower(x)
            sides.append((F.relu(self.sides(y)) * self.scales[level] * stride).flatten(2))
            centres.append(self.centre(y).flatten(2))
            places.append(_places(x.shape[2], x.shape[3], stride, x))
        score, side, centre = (torch.cat(p, 2).transpose(1, 2) for p in (scores, sides, centres))
        place = torch.cat(places)
        if self.training:
            assert boxes is not None and labels is not None
            return self._loss(score, side, centre, place, boxes, labels)
        return self._detect(score, side, centre, place, max(image.shape[2:]))

    def _detect(
        self, score: Tensor, side: Tensor, centre: Tensor, place: Tensor, extent: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        quality = (score.sigmoid() * centre.sigmoid()).sqrt()
        top = quality.flatten(1).topk(_CANDIDATES, dim=1)
        where, labels = top.indices // self.classes, top.indices % self.classes
        chosen, spot = take(side, where), place[where]
        boxes = torch.cat([spot - chosen[..., :2], spot + chosen[..., 2:]], dim=2)
        boxes = boxes.clamp(0, extent)
        apart = labels[..., None] * float(2 * extent)
        kept = torch.where(survivors(boxes + apart, 0.6), top.values, 0.0).topk(100, dim=1)
        return kept.values, take(boxes, kept.indices), labels.gather(1, kept.indices)

    def _loss(
        self,
        score: Tensor,
        side: Tensor,
        centre: Tensor,
        place: Tensor,
        boxes: Tensor,
        labels: Tensor,
    ) -> Tensor:
        low = place[None, :, None] - boxes[:, None, :, :2]
        high = boxes[:, None, :, 2:] - place[None, :, None]
        wanted = torch.cat([low, high], dim=3)  # distances to the sides, (B, N, G, 4)
        depth, nearest = wanted.amin(dim=3).max(dim=2)
        inside = depth > 0
        wanted = wanted.gather(2, nearest[..., None, None].expand(-1, -1, 1, 4)).squeeze(2)
        wanted = wanted.clamp(min=1e-3)
        near = labels.gather(1, nearest)
        truth = F.one_hot(near, self.classes).to(score.dtype) * inside[..., None]
        cross = F.binary_cross_entropy_with_logits(score, truth, reduction="none")
        missed = torch.where(truth > 0, 1 - score.sigmoid(), score.sigmoid())
        weight = torch.where(truth > 0, 0.25, 0.75)
        count = inside.sum().clamp(min=1)
        focal = (weight * missed.square() * cross).sum() / count
        common = torch.minimum(side, wanted)
        overlap = (common[..., 0] + common[..., 2]) * (common[..., 1] + common[..., 3])
        union = _area(side) + _area(wanted) - overlap
        shape = -((overlap + 1.0) / (union + 1.0)).log()
        pairs = wanted.unflatten(2, (2, 2))
        balance = (pairs.amin(dim=2) / pairs.amax(dim=2)).prod(dim=2).sqrt()
        middle = F.binary_cross_entropy_with_logits(centre[..., 0], balance, reduction="none")
        return focal + torch.where(inside, shape + middle, 0.0).sum() / count


def _area(sides: Tensor) -> Tensor:
    return (sides[..., 0] + sides[..., 2]) * (sides[..., 1] + sides[..., 3])


def _places(height: int, width: int, stride: int, like: Tensor) -> Tensor:
    """Centres of the cells of a map, (height * width, 2)."""
    y = (torch.arange(height, device=like.device, dtype=like.dtype) + 0.5) * stride
    x = (torch.arange(width, device=like.device, dtype=like.dtype) + 0.5) * stride
    return torch.stack([x.expand(height, width), y[:, None].expand(height, width)], dim=2).flatten(
        0, 1
    )
