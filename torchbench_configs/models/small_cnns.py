"""Convolutional networks of a few layers, as tutorials have them for CIFAR-10 and for digits."""

from __future__ import annotations

from torch import nn


def cnn5(width: int, side: int) -> nn.Sequential:
    """Five layers: three convolutions and two linear ones.

    (B, 3, 4 * side, 4 * side) to (B, 10).
    """
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, width * 2, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width * 2, width * 2, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width * 2 * side * side, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def mnist_cnn(width: int) -> nn.Sequential:
    """Two convolutions and two linear layers, (B, 1, 28, 28) to (B, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * 12 * 12, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def digits_cnn() -> nn.Sequential:
    """Two convolutions with batch norms, and two linear layers, (B, 1, 8, 8) to (B, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
