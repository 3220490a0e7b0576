"""Data of MNIST's form without a download: scikit-learn's scans of digits, enlarged and moved."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from benchmarks import digits

SIDE = 28
#: Pixels that a copy of a scan may be moved by.
_SHIFT = 2


def enlarged(images: Tensor) -> Tensor:
    """Scans (N, 1, 8, 8) as (N, 1, 28, 28)."""
    return interpolate(images, size=(SIDE, SIDE), mode="bilinear", align_corners=False)


def scans(count: int) -> digits.Digits:
    """``count`` images to learn from, all scans that are not held out again and again, each time
    moved by up to two pixels; and the held-out ones as they are. Always the same.
    """
    data = digits.load()
    generator = torch.Generator().manual_seed(0)
    rows = torch.arange(count) % len(data.train_labels)
    shifts = torch.randint(-_SHIFT, _SHIFT + 1, (count, 2), generator=generator)
    lines = (torch.arange(SIDE) - shifts[:, :1]) % SIDE
    columns = (torch.arange(SIDE) - shifts[:, 1:]) % SIDE
    images = enlarged(data.train_images)[rows, 0]
    moved = images.gather(1, lines[:, :, None].expand(-1, -1, SIDE))
    moved = moved.gather(2, columns[:, None, :].expand(-1, SIDE, -1))
    return digits.Digits(
        moved[:, None], data.train_labels[rows], enlarged(data.test_images), data.test_labels
    )
