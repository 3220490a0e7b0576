"""Background Matting (Sengupta et al., arXiv 2004.00626): the generator ``ResnetConditionHR``.

Four encoders (image, background, segmentation, motion), a context switching block, two decoders.
Following the published code, the motion branch combines the background's features, so that the
motion encoder's weights get no gradient; it is run all the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchbench_configs.models.blocks import conv_block, residual_block

_NORM = nn.BatchNorm2d


def _up(inputs: int, outputs: int) -> list[nn.Module]:
    scale = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    return [scale, conv_block(inputs, outputs, 3, bias=True)]


def _residuals(channels: int, count: int) -> nn.Sequential:
    return nn.Sequential(
        *(residual_block(channels, _NORM, reflect=True, bias=True) for _ in range(count))
    )


class BackgroundMatting(nn.Module):
    """Image and background (B, 3, H, W), segmentation (B, 1, H, W), motion (B, 4, H, W).

    Returns the matte (B, 1, H, W) in -1..1 and the foreground (B, 3, H, W).
    """

    def __init__(self, width: int = 64, shared: int = 7, separate: int = 3) -> None:
        super().__init__()
        deep = 4 * width
        self.stem, self.encode = self._encoder(3, width)
        self.background = nn.Sequential(*self._encoder(3, width))
        self.segmentation = nn.Sequential(*self._encoder(1, width))
        self.motion = nn.Sequential(*self._encoder(4, width))
        self.combine = nn.ModuleList(conv_block(2 * deep, width, 1) for _ in range(3))
        self.decode = nn.Sequential(conv_block(deep + 3 * width, deep, 1), _residuals(deep, shared))
        self.matte = nn.Sequential(
            _residuals(deep, separate),
            *_up(deep, deep // 2),
            *_up(deep // 2, width),
            nn.ReflectionPad2d(3),
            nn.Conv2d(width, 1, 7),
            nn.Tanh(),
        )
        self.foreground = nn.Sequential(_residuals(deep, separate), *_up(deep, deep // 2))
        self.finish = nn.Sequential(
            *_up(deep, width), nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7)
        )

    @staticmethod
    def _encoder(inputs: int, width: int) -> tuple[nn.Sequential, nn.Sequential]:
        first = nn.Sequential(
            conv_block(inputs, width, 7, bias=True, reflect=True),
            conv_block(width, 2 * width, 3, 2, bias=True),
        )
        return first, conv_block(2 * width, 4 * width, 3, 2, bias=True)

    def forward(
        self, image: Tensor, background: Tensor, segmentation: Tensor, motion: Tensor
    ) -> tuple[Tensor, Tensor]:
        early = self.stem(image)
        features = self.encode(early)
        behind = self.background(background)
        self.motion(motion)
        others = (behind, self.segmentation(segmentation), behind)
        combined = [
            combine(torch.cat([features, other], dim=1))
            for combine, other in zip(self.combine, others, strict=True)
        ]
        shared = self.decode(torch.cat([features, *combined], dim=1))
        foreground = self.finish(torch.cat([self.foreground(shared), early], dim=1))
        return self.matte(shared), foreground
