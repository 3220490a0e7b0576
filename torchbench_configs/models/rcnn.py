"""Faster and Mask R-CNN (arXiv 1506.01497, 1703.06870) in the variants of detectron2's zoo.

``fpn``: pyramid, two fully connected layers; ``c4``: proposals on res4, res5 as the head; ``dc5``:
dilated res5 for both. Simplified: every anchor and proposal enters the losses with balanced
weights instead of a random sample; results and proposals have fixed numbers; class scores are
suppressed among the best 300.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchbench_configs.models.choice import Choice
from torchbench_configs.models.detection_backbone import Pyramid, ResNet
from torchbench_configs.models.detection_boxes import (
    anchors,
    best,
    clip,
    decode,
    encode,
    overlaps,
    roi_align,
    survivors,
    take,
)

Kind = Literal["fpn", "c4", "dc5"]
_WEIGHTS = (10.0, 5.0)  # of the deltas of the second stage
_CANDIDATES = 300


class _Proposer(nn.Module):
    """The region proposal network: a score and deltas for each anchor."""

    def __init__(self, inputs: int, shapes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, inputs, 3, padding=1)
        self.act = nn.ReLU()
        self.score = nn.Conv2d(inputs, shapes, 1)
        self.delta = nn.Conv2d(inputs, 4 * shapes, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (B, N) and deltas (B, N, 4), cell by cell."""
        x = self.act(self.conv(x))
        deltas = self.delta(x).unflatten(1, (-1, 4)).permute(0, 3, 4, 1, 2)
        return self.score(x).permute(0, 2, 3, 1).flatten(1), deltas.flatten(1, 3)


class Rcnn(nn.Module):
    """Images (B, 3, H, W) to scores (B, 100), boxes (B, 100, 4), classes (B, 100) and, with
    ``mask``, masks (B, 100, 28, 28) (14 x 14 for ``c4``).

    In training, with boxes (B, G, 4), classes (B, G) and, with ``mask``, masks of these boxes
    (B, G, 28, 28) in 0..1, the sum of all losses.
    """

    def __init__(
        self,
        depth: int,
        kind: Kind,
        mask: bool = False,
        classes: int = 80,
        proposals: int = 300,
    ) -> None:
        super().__init__()
        self.kind, self.mask, self.classes, self.proposals = kind, mask, classes, proposals
        self.strides: tuple[int, ...]
        self.pool_size = 14 if kind == "c4" else 7
        if kind == "fpn":
            self.backbone: nn.Module = Pyramid(depth)
            inputs, self.strides, self.sizes = (
                256,
                (4, 8, 16, 32, 64),
                [[32], [64], [128], [256], [512]],
            )
        else:
            self.backbone = ResNet(depth, dilated=kind == "dc5", stages=4 if kind == "dc5" else 3)
            inputs = 2048 if kind == "dc5" else 1024
            self.strides, self.sizes = (16,), [[32, 64, 128, 256, 512]]
        self.proposer = _Proposer(inputs, 3 * len(self.sizes[0]))
        self.proposed = Choice()
        if kind == "c4":
            assert isinstance(self.backbone, ResNet)
            self.head: nn.Module = self.backbone.rest[0]
            width = 2048
        else:
            self.head = nn.Sequential(
                nn.Flatten(),
                nn.Linear(inputs * 49, 1024),
                nn.ReLU(),
                nn.Linear(1024, 1024),
                nn.ReLU(),
            )
            width = 1024
        self.score, self.delta = nn.Linear(width, classes + 1), nn.Linear(width, 4 * classes)
        for layer in (self.score, self.delta):
            nn.init.normal_(layer.weight, std=0.1)  # scores far enough apart to be ordered
        if mask:
            layers: list[nn.Module] = []
            for _ in range(0 if kind == "c4" else 4):
                layers += [nn.Conv2d(inputs, 256, 3, padding=1), nn.ReLU()]
                inputs = 256
            source = width if kind == "c4" else 256
            layers += [nn.ConvTranspose2d(source, 256, 2, 2), nn.ReLU()]
            self.mask_head = nn.Sequential(*layers, nn.Conv2d(256, classes, 1))

    def forward(
        self,
        image: Tensor,
        boxes: Tensor | None = None,
        labels: Tensor | None = None,
        masks: Tensor | None = None,
    ) -> tuple[Tensor, ...] | Tensor:
        maps = self.backbone(image)
        maps = maps if self.kind == "fpn" else maps[-1:]
        height, width = image.shape[2:]
        found = [self.proposer(x) for x in maps]
        grids = [
            anchors(x.shape[2], x.shape[3], stride, sizes, x)
            for x, stride, sizes in zip(maps, self.strides, self.sizes, strict=True)
        ]
        rois = self._propose(found, grids, height, width)
        pooled_maps = maps[:4]
        if not self.training:
            return self._detect(pooled_maps, rois, height, width)
        assert boxes is not None and labels is not None
        loss = self._proposal_loss(found, grids, boxes)
        rois = torch.cat([rois, boxes], dim=1)
        return loss + self._head_loss(pooled_maps, rois, boxes, labels, masks)

    def _propose(
        self, found: list[tuple[Tensor, Tensor]], grids: list[Tensor], height: int, width: int
    ) -> Tensor:
        """The best boxes of all levels, suppressed a level, (B, proposals, 4)."""
        scores, boxes = [], []
        for (score, delta), grid in zip(found, grids, strict=True):
            top = score.detach().topk(min(1000, score.shape[1]), dim=1)
            chosen = decode(grid[top.indices], take(delta.detach(), top.indices))
            count = min(self.proposals, top.values.shape[1])
            kept = best(top.values.sigmoid(), clip(chosen, height, width), count, 0.7)
            scores.append(kept[0])
            boxes.append(kept[1])
        order = torch.cat(scores, dim=1).topk(self.proposals, dim=1).indices
        proposed: Tensor = self.proposed(take(torch.cat(boxes, dim=1), order))
        return proposed

    def _features(self, maps: list[Tensor], rois: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (B * R, W) of regions, and the maps (B * R, C, s, s) that masks start from."""
        pooled = roi_align(maps, self.strides[: len(maps)], rois, self.pool_size).flatten(0, 1)
        if self.kind != "c4":
            return self.head(pooled), pooled
        x = self.head(pooled)
        return x.mean(dim=(2, 3)), x

    def _masks(self, maps: list[Tensor], rois: Tensor, labels: Tensor) -> Tensor:
        """Logits (B, R, M, M) of the masks of these classes."""
        if self.kind == "c4":
            source = self._features(maps, rois)[1]
        else:
            strides = self.strides[: len(maps)]
            source = roi_align(maps, strides, rois, 14).flatten(0, 1)
        logits = self.mask_head(source)
        index = labels.flatten()[:, None, None, None].expand(-1, 1, *logits.shape[2:])
        return logits.gather(1, index).squeeze(1).unflatten(0, labels.shape)

    def _detect(
        self, maps: list[Tensor], rois: Tensor, height: int, width: int
    ) -> tuple[Tensor, ...]:
        vectors, _ = self._features(maps, rois)
        shape = rois.shape[:2]
        scores = self.score(vectors).softmax(dim=1)[:, :-1].unflatten(0, shape)
        deltas = self.delta(vectors).unflatten(0, shape).unflatten(2, (self.classes, 4))
        boxes = clip(decode(rois[:, :, None], deltas, _WEIGHTS), height, width)
        top = scores.flatten(1).topk(_CANDIDATES, dim=1)
        labels = top.indices % self.classes
        chosen = take(boxes.flatten(1, 2), top.indices)
        # Boxes of different classes are moved apart, so that they do not suppress one another.
        apart = labels[..., None] * float(2 * max(height, width))
        kept = torch.where(survivors(chosen + apart, 0.5), top.values, 0.0).topk(100, dim=1)
        scores = kept.values
        final, classes = take(chosen, kept.indices), labels.gather(1, kept.indices)
        if not self.mask:
            return scores, final, classes
        return scores, final, classes, self._masks(maps, final, classes).sigmoid()

    def _proposal_loss(
        self, found: list[tuple[Tensor, Tensor]], grids: list[Tensor], boxes: Tensor
    ) -> Tensor:
        scores = torch.cat([score for score, _ in found], dim=1)
        deltas = torch.cat([delta for _, delta in found], dim=1)
        grid = torch.cat(grids)[None].expand(boxes.shape[0], -1, -1)
        overlap, nearest = overlaps(grid, boxes).max(dim=2)
        objects, background = overlap > 0.5, overlap < 0.3
        cross = F.binary_cross_entropy_with_logits(
            scores, objects.to(scores.dtype), reduction="none"
        )
        wanted = encode(grid, take(boxes, nearest))
        moved = F.smooth_l1_loss(deltas, wanted, reduction="none", beta=1 / 9).sum(dim=2)
        return _mean(cross, objects) + _mean(cross, background) + _mean(moved, objects)

    def _head_loss(
        self,
        maps: list[Tensor],
        rois: Tensor,
        boxes: Tensor,
        labels: Tensor,
        masks: Tensor | None,
    ) -> Tensor:
        overlap, nearest = overlaps(rois, boxes).max(dim=2)
        objects = overlap >= 0.5
        near = labels.gather(1, nearest)
        wanted = torch.where(objects, near, self.classes)
        vectors, _ = self._features(maps, rois)
        logits = self.score(vectors)
        cross = F.cross_entropy(logits, wanted.flatten(), reduction="none").view_as(overlap)
        deltas = self.delta(vectors).unflatten(0, near.shape).unflatten(2, (self.classes, 4))
        index = near[..., None, None].expand(-1, -1, 1, 4)
        own = deltas.gather(2, index).squeeze(2)
        target = encode(rois.clamp(min=0), take(boxes, nearest), _WEIGHTS)
        usable = objects & ((rois[..., 2:] - rois[..., :2]).amin(dim=2) > 1)
        moved = F.smooth_l1_loss(own, torch.nan_to_num(target, 0.0, 0.0, 0.0), reduction="none")
        loss = _mean(cross, objects) + _mean(cross, ~objects) + _mean(moved.sum(dim=2), usable)
        if not self.mask:
            return loss
        assert masks is not None
        drawn = self._masks(maps, boxes, labels)
        target = F.interpolate(masks, size=drawn.shape[2:], mode="bilinear", align_corners=False)
        return loss + F.binary_cross_entropy_with_logits(drawn, target)


def _mean(values: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the chosen values, 0 without any."""
    total = torch.where(chosen, values, torch.zeros_like(values)).sum()
    return total / chosen.sum().clamp(min=1)
