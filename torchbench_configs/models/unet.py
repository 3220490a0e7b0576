"""U-Net for segmentation (Ronneberger et al., arXiv 1505.04597), in milesial's two variants.

Nothing is simplified: batch norms; bilinear upsampling and padding to the size of the skip, or
transposed convolutions.
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


def _enlarged(x: Tensor, skip: Tensor) -> Tensor:
    """Twice the size, bilinear, and zeros around it up to the size of ``skip``."""
    x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
    rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
    return F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])


class UNet(nn.Module):
    """Images (B, 3, H, W) to class logits (B, classes, H, W); ``depth`` steps down and up.

    With transposed convolutions instead of ``bilinear`` upsampling, H and W have to be multiples of
    ``2**depth``.
    """

    def __init__(
        self, classes: int = 2, width: int = 64, depth: int = 4, bilinear: bool = True
    ) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        if bilinear:  # which does not halve the channels
            widths[-1] //= 2
        pairs, skips = list(pairwise(widths)), widths[-2::-1]
        self.stem = _double(3, width)
        self.down = nn.ModuleList(_double(a, b) for a, b in pairs)
        self.grow = nn.ModuleList()
        if not bilinear:
            self.grow.extend(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs[::-1])
        self.up = nn.ModuleList(
            _double(2 * a, max(a // 2, width) if bilinear else a, a) for a in skips
        )
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = [self.stem(x)]
        for block in self.down:
            skips.append(block(F.max_pool2d(skips[-1], 2)))
        x = skips.pop()
        for index, block in enumerate(self.up):
            skip = skips.pop()
            x = self.grow[index](x) if self.grow else _enlarged(x, skip)
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
