"""A compact U-Net: three levels down, three up with transposed convolutions and skips."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn


def double_conv(inputs: int, outputs: int) -> nn.Sequential:
    """Two 3x3 convolutions, each with batch norm and ReLU."""
    layers: list[nn.Module] = []
    for source in (inputs, outputs):
        layers += [nn.Conv2d(source, outputs, 3, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Segmentation logits of the size of the input (N, 3, H, W); H and W multiples of 8."""

    def __init__(self, width: int, classes: int = 2) -> None:
        super().__init__()
        widths = [width, width * 2, width * 4, width * 8]
        pairs = list(pairwise(widths))
        self.stem = double_conv(3, width)
        self.down = nn.ModuleList(double_conv(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs[::-1])
        self.merge = nn.ModuleList(double_conv(2 * a, a) for a, _ in pairs[::-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = [self.stem(x)]
        for block in self.down:
            skips.append(block(nn.functional.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)
