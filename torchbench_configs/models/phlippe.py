"""The small CIFAR-10 networks of Phillip Lippe's tutorials on ResNet and DenseNet.

Papers: arXiv 1512.03385 and 1608.06993, in the sizes of the UvA deep learning course (tutorial 5).
Nothing is simplified; weights keep PyTorch's initial distributions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import conv_block


class _Block(nn.Module):
    """Two 3x3 convolutions; the shortcut of a block that halves is a plain strided 1x1 one."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_block(inputs, outputs, 3, stride),
            conv_block(outputs, outputs, 3, act=nn.Identity()),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.body(x) + self.shortcut(x))


def resnet(classes: int = 10) -> nn.Sequential:
    """Three groups of three blocks with 16, 32 and 64 channels; (B, 3, 32, 32) to logits."""
    layers: list[nn.Module] = [conv_block(3, 16, 3)]
    inputs = 16
    for group, outputs in enumerate((16, 32, 64)):
        for block in range(3):
            layers.append(_Block(inputs, outputs, 2 if block == 0 and group > 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def _norm_relu_conv(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
    return [nn.BatchNorm2d(inputs), nn.ReLU(), convolution]


class _DenseLayer(nn.Module):
    """A bottleneck whose ``growth`` new channels go in front of the old ones."""

    def __init__(self, inputs: int, growth: int, bottleneck: int) -> None:
        super().__init__()
        middle = bottleneck * growth
        self.body = nn.Sequential(
            *_norm_relu_conv(inputs, middle, 1), *_norm_relu_conv(middle, growth, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.body(x), x], dim=1)


def densenet(classes: int = 10, growth: int = 16, bottleneck: int = 2) -> nn.Sequential:
    """Four dense blocks of six layers; (B, 3, 32, 32) to logits."""
    channels = growth * bottleneck
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1)]
    for block in range(4):
        for _ in range(6):
            layers.append(_DenseLayer(channels, growth, bottleneck))
            channels += growth
        if block < 3:
            layers += [*_norm_relu_conv(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(channels, classes))
