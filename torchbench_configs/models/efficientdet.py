"""EfficientDet-D1 (Tan et al., arXiv 1911.09070) on timm's EfficientNet-B1.

Four weighted bidirectional feature pyramids of 88 channels, separable heads shared by the levels
with batch norms of their own. Simplified: the loss reads a fixed target instead of matched
anchors, and decoding of boxes is left out, as in dynamobench.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ocl_inductor.sweep.vision_import import import_torchvision
from torchbench_configs.models.blocks import conv_block


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _halving() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, stride=2, padding=1)


def _separable(inputs: int, outputs: int, bias: bool = True) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False),
        nn.Conv2d(inputs, outputs, 1, bias=bias),
    )


class _Fuse(nn.Module):
    """A weighted mean ("fast normalised fusion") of maps, then a separable convolution."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(count))
        self.body = nn.Sequential(nn.SiLU(), _separable(width, width), _norm(width))

    def forward(self, *maps: Tensor) -> Tensor:
        weight = F.relu(self.weight)
        weight = weight / (weight.sum() + 1e-4)
        return self.body(sum(w * x for w, x in zip(weight.unbind(), maps, strict=True)))


class _BiFpn(nn.Module):
    """Down and up again through five levels, finest first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(_Fuse(width, 2) for _ in range(4))
        self.up = nn.ModuleList(_Fuse(width, 3 if level < 3 else 2) for level in range(4))
        self.shrink = nn.ModuleList(_halving() for _ in range(4))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        inner = [maps[4]]
        for level in (3, 2, 1, 0):
            up = F.interpolate(inner[0], size=maps[level].shape[2:], mode="nearest")
            inner.insert(0, self.down[level](maps[level], up))
        out = [inner[0]]
        for level in (1, 2, 3, 4):
            smaller = self.shrink[level - 1](out[-1])
            parts = (maps[level], inner[level], smaller) if level < 4 else (maps[4], smaller)
            out.append(self.up[level - 1](*parts))
        return out


class _Head(nn.Module):
    """Separable convolutions shared by five levels, with norms of each level's own."""

    def __init__(self, width: int, outputs: int, depth: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(_separable(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(
            nn.ModuleList(_norm(width) for _ in range(5)) for _ in range(depth)
        )
        self.out = _separable(width, outputs)

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        results = []
        for level, x in enumerate(maps):
            for conv, norms in zip(self.convs, self.norms, strict=True):
                x = F.silu(norms[level](conv(x)))
            results.append(self.out(x))
        return results


class EfficientDet(nn.Module):
    """Images (B, 3, 640, 640) to classes and boxes: two lists of five maps, finest first."""

    def __init__(
        self, classes: int = 90, width: int = 88, pyramids: int = 4, depth: int = 3
    ) -> None:
        super().__init__()
        import_torchvision()
        import timm

        self.body = timm.create_model(
            "tf_efficientnet_b1", pretrained=False, features_only=True, out_indices=(2, 3, 4)
        )
        channels = self.body.feature_info.channels()
        self.enter = nn.ModuleList(
            conv_block(n, width, 1, norm=_norm, bias=True, act=nn.Identity()) for n in channels
        )
        self.sixth = conv_block(channels[-1], width, 1, norm=_norm, bias=True, act=nn.Identity())
        self.shrink = nn.ModuleList(_halving() for _ in range(2))
        self.pyramids = nn.ModuleList(_BiFpn(width) for _ in range(pyramids))
        self.classes = _Head(width, 9 * classes, depth)
        self.boxes = _Head(width, 9 * 4, depth)

    def forward(self, image: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        features = self.body(image)
        maps = [layer(x) for layer, x in zip(self.enter, features, strict=True)]
        maps.append(self.shrink[0](self.sixth(features[-1])))
        maps.append(self.shrink[1](maps[-1]))
        for pyramid in self.pyramids:
            maps = pyramid(maps)
        return self.classes(maps), self.boxes(maps)


def loss(outputs: tuple[list[Tensor], list[Tensor]]) -> Tensor:
    """Focal loss (arXiv 1708.02002) of "no object anywhere" plus a Huber loss of zero offsets."""
    classes, boxes = outputs
    logits = torch.cat([x.flatten(1) for x in classes], dim=1)
    focal = 0.75 * logits.sigmoid() ** 1.5 * F.softplus(logits)
    offsets = torch.cat([x.flatten(1) for x in boxes], dim=1)
    return focal.mean() + 50 * F.huber_loss(offsets, torch.zeros_like(offsets), delta=0.1)
