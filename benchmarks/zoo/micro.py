"""Small programs that each measure one thing the compiler does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.zoo.entry import Entry, Inputs
from benchmarks.zoo.text import bert, entry, gpt2, token_ids
from torchbench_configs.models.blocks import mlp


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


def mlp3() -> nn.Module:
    """Three small linear layers: what a call costs when the work is nothing."""
    return mlp((64, 64, 64, 64), nn.Tanh, nn.Tanh())


def _features(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    return Inputs((torch.randn(batch, 64, generator=generator),))


def _digits(small: bool, batch: int, generator: torch.Generator) -> Inputs:
    return Inputs((torch.randn(batch, 1, 28, 28, generator=generator),))


_HERE = "benchmarks.zoo.micro"
_MNIST_CNN = "torchbench_configs.models.small_cnns:mnist_cnn"
# GPT-2's own vocabulary: the head is a third of the work.
_GPT4 = gpt2(768, 4, 12, vocabulary=50257)

ENTRIES = (
    Entry("mnist_cnn", "micro", _MNIST_CNN, _digits, {"width": 32}, {"width": 8}, batch=64),
    Entry("gelu_sum", "micro", f"{_HERE}:GeluSum", _matrices(3)),
    Entry(
        "norm_softmax", "micro", f"{_HERE}:NormSoftmax", _matrices(1),
        {"width": _rows_columns(False)[1]}, {"width": _rows_columns(True)[1]},
    ),
    Entry("mlp3", "micro", f"{_HERE}:mlp3", _features, batch=8),
    Entry("gemm", "micro", f"{_HERE}:Gemm", _square),
    entry(
        "bert_4layer", "BertModel", token_ids,
        bert(768, 4, 12), bert(64, 2, 4), "micro", batch=4,
    ),
    entry("gpt2_4layer", "GPT2LMHeadModel", token_ids, _GPT4, gpt2(64, 2, 4), "micro", batch=2),
)  # fmt: skip
