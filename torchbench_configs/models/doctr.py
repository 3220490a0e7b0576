"""Reading text in documents, as in docTR: a detector of words and a reader of them.

Detector: DBNet (Liao et al., arXiv 1911.08947) on a ResNet-50. Reader: CRNN (Shi et al., arXiv
1507.05717) on VGG-16. Post-processing on the host is left out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ocl_inductor.sweep.vision_import import import_torchvision
from torchbench_configs.models.blocks import conv_block


class DbNet(nn.Module):
    """Pages (B, 3, 1024, 1024) to a probability of text a pixel, (B, 1, 1024, 1024)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        import_torchvision()
        from torchvision import models

        body = models.resnet50(weights=None)
        self.stem = nn.Sequential(body.conv1, body.bn1, body.relu, body.maxpool)
        self.stages = nn.ModuleList([body.layer1, body.layer2, body.layer3, body.layer4])
        part = width // 4
        self.lateral = nn.ModuleList(conv_block(n, width, 1) for n in (256, 512, 1024, 2048))
        self.smooth = nn.ModuleList(conv_block(width, part, 3) for _ in range(4))
        self.head = nn.Sequential(
            conv_block(width, part, 3),
            nn.ConvTranspose2d(part, part, 2, 2, bias=False),
            nn.BatchNorm2d(part),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(part, 1, 2, 2),
        )

    def forward(self, page: Tensor) -> Tensor:
        x = self.stem(page)
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        lateral = [layer(x) for layer, x in zip(self.lateral, features, strict=True)]
        merged = [lateral.pop()]
        while lateral:
            up = F.interpolate(merged[0], scale_factor=2.0, mode="bilinear", align_corners=False)
            merged.insert(0, lateral.pop() + up)
        parts = []
        for level, (smooth, x) in enumerate(zip(self.smooth, merged, strict=True)):
            y = smooth(x)
            if level:
                y = F.interpolate(y, scale_factor=2.0**level, mode="bilinear", align_corners=False)
            parts.append(y)
        return torch.sigmoid(self.head(torch.cat(parts, dim=1)))


class Crnn(nn.Module):
    """Words (B, 3, 32, 128) to logits of characters, (B, 32, characters + 1)."""

    def __init__(self, characters: int = 126, hidden: int = 128) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        # VGG-16 whose later pools halve the height only.
        for width, count, pool in (
            (64, 2, (2, 2)),
            (128, 2, (2, 2)),
            (256, 3, (2, 1)),
            (512, 3, (2, 1)),
            (512, 3, (2, 1)),
        ):
            for _ in range(count):
                layers.append(conv_block(inputs, width, 3, bias=True))
                inputs = width
            layers.append(nn.MaxPool2d(pool))
        self.features = nn.Sequential(*layers)
        self.recurrent = nn.LSTM(inputs, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, characters + 1)

    def forward(self, word: Tensor) -> Tensor:
        columns = self.features(word).flatten(1, 2).transpose(1, 2)
        return self.out(self.recurrent(columns)[0])
