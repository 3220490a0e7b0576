"""What the examples learn from: Python's own documentation, and scikit-learn's scans of digits."""

from __future__ import annotations

from collections.abc import Iterator
from pydoc_data.topics import topics

import torch
from torch import Tensor


def paragraphs() -> list[tuple[str, str]]:
    """All paragraphs of running text, each with the name of its topic."""
    return [
        (topic, " ".join(paragraph.split()))
        for topic, text in sorted(topics.items())
        for paragraph in text.split("\n\n")
        if len(paragraph) > 80
    ]


def as_bytes(text: str) -> Tensor:
    """A token for each byte."""
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long()


def documentation() -> Tensor:
    """The whole text as tokens, about 600,000."""
    return as_bytes("\n".join(text for _, text in paragraphs()))


def windows(tokens: Tensor, steps: int, batch: int, length: int) -> Iterator[Tensor]:
    """Batches (batch, length) of pieces from anywhere; always the same ones."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        starts = torch.randint(len(tokens) - length, (batch, 1), generator=generator)
        yield tokens[starts + torch.arange(length)]


def digits() -> tuple[Tensor, Tensor]:
    """1797 scans (N, 1, 8, 8) with levels from 0 to 1, and what they show."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return torch.from_numpy(data.images).float().div(16).unsqueeze(1), torch.from_numpy(data.target)
