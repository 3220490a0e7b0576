"""Generators of images that translate between domains: CycleGAN and StarGAN.

Papers: Zhu et al., arXiv 1703.10593; Choi et al., arXiv 1711.09020. The generators alone, as
dynamobench measures them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import conv_block, residual_block


def cyclegan(width: int = 64, blocks: int = 9) -> nn.Sequential:
    """The ResNet generator with instance norms; (B, 3, 256, 256) to the same."""
    norm = nn.InstanceNorm2d
    layers: list[nn.Module] = [conv_block(3, width, 7, norm=norm, bias=True, reflect=True)]
    for factor in (1, 2):
        layers.append(conv_block(width * factor, 2 * width * factor, 3, 2, norm=norm, bias=True))
    layers += [residual_block(4 * width, norm, reflect=True, bias=True) for _ in range(blocks)]
    for factor in (4, 2):
        outputs = width * factor // 2
        layers += [
            nn.ConvTranspose2d(width * factor, outputs, 3, 2, 1, output_padding=1),
            norm(outputs),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh())


class StarGan(nn.Module):
    """StarGAN's generator: an image (B, 3, 128, 128) and a domain (B, C) to an image."""

    def __init__(self, width: int = 64, domains: int = 5, blocks: int = 6) -> None:
        super().__init__()

        def norm(channels: int) -> nn.Module:
            return nn.InstanceNorm2d(channels, affine=True, track_running_stats=True)

        layers: list[nn.Module] = [conv_block(3 + domains, width, 7, norm=norm)]
        for factor in (1, 2):
            channels = width * factor
            layers.append(conv_block(channels, 2 * channels, 4, 2, padding=1, norm=norm))
        layers += [
            residual_block(4 * width, norm, reflect=False, bias=False) for _ in range(blocks)
        ]
        for factor in (4, 2):
            channels = width * factor
            layers += [
                nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1, bias=False),
                norm(channels // 2),
                nn.ReLU(inplace=True),
            ]
        layers += [nn.Conv2d(width, 3, 7, padding=3, bias=False), nn.Tanh()]
        self.body = nn.Sequential(*layers)

    def forward(self, image: Tensor, domain: Tensor) -> Tensor:
        planes = domain[:, :, None, None].expand(-1, -1, image.shape[2], image.shape[3])
        return self.body(torch.cat([image, planes], dim=1))
