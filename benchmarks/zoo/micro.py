"""Small programs that each measure one thing the compiler does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Entry, Inputs
from benchmarks.zoo.text import bert, gpt2, tokens


class GeluSum(nn.Module):
    """``gelu(a*b + c).sum(-1)``: pointwise fused into a reduction."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return nn.functional.gelu(a * b + c).sum(-1)


class NormSoftmax(nn.Module):
    """``softmax(layer_norm(x))``: two row reductions over the same row."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x).softmax(-1)


class Gemm(nn.Module):
    """``a @ b``, both given per call, so nothing can be packed ahead."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b


def _rows_columns(small: bool) -> tuple[int, int]:
    return (64, 128) if small else (4096, 1024)


def _matrices(count: int):
    def make(small: bool, batch: int, generator: torch.Generator) -> Inputs:
        shape = _rows_columns(small)
        return Inputs(tuple(torch.randn(*shape, generator=generator) for _ in range(count)))

    return make


def _square(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    side = 64 if small else 1024
    return Inputs(tuple(torch.randn(side, side, generator=generator) for _ in range(2)))


def _mlp(small: bool) -> nn.Module:
    """Three small linear layers: what a call costs when the work is nothing."""
    return nn.Sequential(
        nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()
    )


def _features(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    return Inputs((torch.randn(batch, 64, generator=generator),))


def _bert4(small: bool) -> nn.Module:
    return bert(64, 2, 4) if small else bert(768, 4, 12)


def _gpt4(small: bool) -> nn.Module:
    # GPT-2's own vocabulary: the head is a third of the work.
    return gpt2(64, 2, 4) if small else gpt2(768, 4, 12, vocabulary=50257)


def _ids(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    return Inputs((tokens(small, batch, generator),))


def _mnist_cnn(small: bool) -> nn.Module:
    """Two convolutions and two linear layers, as small networks for handwritten digits have."""
    width = 8 if small else 32
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


def _digits(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    return Inputs((torch.randn(batch, 1, 28, 28, generator=generator),))


ENTRIES = (
    Entry("mnist_cnn", _mnist_cnn, _digits, "micro", batch=64),
    Entry("gelu_sum", lambda small: GeluSum(), _matrices(3), "micro"),
    Entry(
        "norm_softmax", lambda small: NormSoftmax(_rows_columns(small)[1]), _matrices(1), "micro"
    ),
    Entry("mlp3", _mlp, _features, "micro", batch=8),
    Entry("gemm", lambda small: Gemm(), _square, "micro"),
    Entry("bert_4layer", _bert4, _ids, "micro", batch=4),
    Entry("gpt2_4layer", _gpt4, _ids, "micro", batch=2),
)
