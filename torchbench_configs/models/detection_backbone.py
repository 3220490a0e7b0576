"""Backbones of detectors: ResNet with frozen norms, feature pyramids (arXiv 1612.03144)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ocl_inductor.sweep.vision_import import import_torchvision


class FrozenBatchNorm2d(nn.BatchNorm2d):
    """A batch norm that never trains, neither its weights nor its statistics."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.requires_grad_(False)
        self.training = False

    def train(self, mode: bool = True) -> FrozenBatchNorm2d:
        self.training = False
        return self


class ResNet(nn.Module):
    """The stages of a ResNet of 50 or 101 layers; images (B, 3, H, W) to maps of res2 to res5.

    ``dilated`` keeps the stride of res5 at 16 ("DC5"); ``stages`` is how many are run.
    """

    def __init__(self, depth: int, dilated: bool = False, stages: int = 4) -> None:
        super().__init__()
        import_torchvision()
        from torchvision import models

        body: Any = getattr(models, f"resnet{depth}")(
            weights=None,
            norm_layer=FrozenBatchNorm2d,
            replace_stride_with_dilation=[False, False, dilated],
        )
        self.stem = nn.Sequential(body.conv1, body.bn1, body.relu, body.maxpool)
        layers = [body.layer1, body.layer2, body.layer3, body.layer4]
        self.stages = nn.ModuleList(layers[:stages])
        self.rest: list[nn.Module] = layers[stages:]  # for the head of C4 models, which owns it
        # As published: the stem and the first stage are frozen (FREEZE_AT: 2).
        self.stem.requires_grad_(False)
        layers[0].requires_grad_(False)

    def forward(self, image: Tensor) -> list[Tensor]:
        x = self.stem(image)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


class Pyramid(nn.Module):
    """Maps of 256 channels at strides 4 to 64, or 8 to 128 for one-stage detectors."""

    def __init__(self, depth: int, width: int = 256, one_stage: bool = False) -> None:
        super().__init__()
        self.one_stage = one_stage
        self.body = ResNet(depth)
        channels = (512, 1024, 2048) if one_stage else (256, 512, 1024, 2048)
        self.lateral = nn.ModuleList(nn.Conv2d(n, width, 1) for n in channels)
        self.out = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in channels)
        coarse = 2 if one_stage else 0
        self.coarse = nn.ModuleList(nn.Conv2d(width, width, 3, 2, 1) for _ in range(coarse))
        self.strides = (8, 16, 32, 64, 128) if one_stage else (4, 8, 16, 32, 64)

    def forward(self, image: Tensor) -> list[Tensor]:
        maps = self.body(image)[1 if self.one_stage else 0 :]
        x = self.lateral[-1](maps[-1])
        found = [self.out[-1](x)]
        for level in range(len(maps) - 2, -1, -1):
            up = F.interpolate(x, size=maps[level].shape[2:], mode="nearest")
            x = self.lateral[level](maps[level]) + up
            found.insert(0, self.out[level](x))
        if not self.one_stage:
            return [*found, F.max_pool2d(found[-1], 1, 2)]
        for index, conv in enumerate(self.coarse):
            found.append(conv(found[-1] if index == 0 else F.relu(found[-1])))
        return found
