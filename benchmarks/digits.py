"""Real handwritten digits: the data, a small network, and pictures for a terminal.

scikit-learn ships 1797 scans of 8x8 pixels with grey levels 0 to 16, so nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from torchbench_configs.models.small_cnns import digits_cnn

EPOCHS, BATCH = 12, 64


@dataclass(frozen=True, slots=True)
class Digits:
    """Images (N, 1, 8, 8) of levels 0 to 1 with their labels, split in two."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load(seed: int = 0) -> Digits:
    """A quarter of the digits is held out."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.from_numpy(data.images).float().div(16).unsqueeze(1)
    labels = torch.from_numpy(data.target).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    test, train = order[: len(order) // 4], order[len(order) // 4 :]
    return Digits(images[train], labels[train], images[test], labels[test])


def network() -> nn.Module:
    """What learns them; always the same weights.

    Without dropout: random numbers differ between backends, and the losses could not be compared.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return digits_cnn()


def batches(digits: Digits, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Images and labels in an order that depends on the epoch only; all batches are full."""
    count = len(digits.train_labels)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
    for rows in order[: count // BATCH * BATCH].split(BATCH):
        yield digits.train_images[rows], digits.train_labels[rows]


def accuracy(predictions: Tensor, labels: Tensor) -> float:
    """Share of right predictions."""
    return (predictions == labels).float().mean().item()


def draw(image: Tensor, shades: str = " ░▒▓█") -> list[str]:
    """Eight lines of 16 characters; a pixel is two characters, which is about a square."""
    levels = (image.squeeze().clamp(0, 1) * (len(shades) - 1)).round().int().tolist()
    return ["".join(shades[level] * 2 for level in row) for row in levels]


def gallery(images: Tensor, captions: list[str], per_row: int, shades: str) -> str:
    """Pictures beside each other with a caption under each."""
    blocks: list[str] = []
    for start in range(0, len(captions), per_row):
        pictures = [draw(image, shades) for image in images[start : start + per_row]]
        lines = ["   ".join(parts) for parts in zip(*pictures, strict=True)]
        lines.append("   ".join(text.center(16) for text in captions[start : start + per_row]))
        blocks.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(blocks)
