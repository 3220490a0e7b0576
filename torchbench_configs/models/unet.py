"""U-Net for segmentation (Ronneberger et al., arXiv 1505.04597), in milesial's bilinear variant.

Nothing is simplified: batch norms, bilinear upsampling, padding to the size of the skip.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchbench_configs.models.blocks import conv_block


def _double(inputs: int, outputs: int, middle: int | None = None) -> nn.Sequential:
    middle = outputs if middle is None else middle
    return nn.Sequential(conv_block(inputs, middle, 3), conv_block(middle, outputs, 3))


class UNet(nn.Module):
    """Images (B, 3, H, W) to class logits (B, classes, H, W)."""

    def __init__(self, classes: int = 2, width: int = 64) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width, 8 * width]
        self.stem = _double(3, width)
        self.down = nn.ModuleList(_double(a, b) for a, b in pairwise(widths))
        ups = [(16, 4), (8, 2), (4, 1), (2, 1)]  # widths in front of and behind each step up
        self.up = nn.ModuleList(_double(a * width, b * width, a * width // 2) for a, b in ups)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = [self.stem(x)]
        for block in self.down:
            skips.append(block(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
            skip = skips.pop()
            rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            x = block(torch.cat([skip, x], dim=1))
        return self.head(x)


def loss(logits: Tensor, masks: Tensor) -> Tensor:
    """Cross entropy plus one minus the Dice coefficient over all classes; masks (B, H, W)."""
    shares = logits.softmax(dim=1)
    wanted = F.one_hot(masks, logits.shape[1]).permute(0, 3, 1, 2).to(shares.dtype)
    common = (shares * wanted).sum(dim=(0, 2, 3))
    total = (shares + wanted).sum(dim=(0, 2, 3))
    dice = ((2 * common + 1e-6) / (total + 1e-6)).mean()
    return F.cross_entropy(logits, masks) + 1 - dice
