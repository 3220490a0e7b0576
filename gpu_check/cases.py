"""What is emitted: sizes that networks have. No number is computed, so that operands are empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from gpu_check.networks import Block, Bottleneck

Function = Callable[..., Any]

#: Families whose code is a template's, with a loop of multiply-adds.
PRODUCTS = frozenset({"product", "convolution", "attention"})

HALF, BFLOAT = torch.float16, torch.bfloat16
COMPLEX = torch.complex64


@dataclass(frozen=True)
class Case:
    """A function and its operands.

    Attributes:
        name: unique.
        family: product, convolution, attention, rows, points, matrices, indices,
            networks.
        make: the function, or module, and the operands; called once for each device.
        training: whether ``backward()`` of the sum of the results is emitted as well.
    """

    name: str
    family: str
    make: Callable[[], tuple[Function, tuple[Any, ...]]]
    training: bool = False


def empty(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, requires_grad=grad)


def _plain(function: Function, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Any:
    return lambda: (function, tuple(empty(*s, dtype=dtype) for s in shapes))


def _trained(function: Function, *shapes: tuple[int, ...]) -> Any:
    return lambda: (function, tuple(empty(*s, grad=True) for s in shapes))


def _mm(m: int, k: int, n: int, dtype: torch.dtype = torch.float32) -> Any:
    return _plain(torch.mm, (m, k), (k, n), dtype=dtype)


def _linear(m: int, k: int, n: int, dtype: torch.dtype = torch.float32) -> Any:
    return lambda: (nn.Linear(k, n).to(dtype), (empty(m, k, dtype=dtype),))


def _conv(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    size: int,
    batch: int = 16,
    stride: int = 1,
    groups: int = 1,
    dtype: torch.dtype = torch.float32,
    grad: bool = False,
) -> Any:
    def make() -> Any:
        layer = nn.Conv2d(
            inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False
        ).to(dtype)
        return layer, (empty(batch, inputs, size, size, dtype=dtype, grad=grad),)

    return make


def _attention(
    queries: int = 512,
    keys: int = 512,
    head: int = 64,
    *,
    dtype: torch.dtype = torch.float32,
    grad: bool = False,
    causal: bool = True,
) -> Any:
    lengths = (queries, keys, keys)
    function = partial(F.scaled_dot_product_attention, is_causal=causal)
    return lambda: (function, tuple(empty(2, 8, n, head, dtype=dtype, grad=grad) for n in lengths))


def _indices(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def _layer(layer: Callable[[], nn.Module], *shape: int) -> Any:
    return lambda: (layer(), (empty(*shape, grad=True),))


def _gelu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.gelu(x) * y


def _gather(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.gather(0, index)


def _scatter(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return x.scatter_add(0, index, source)


def _complex_product() -> tuple[Function, tuple[Any, ...]]:
    """Of the magnitude: losses are real."""
    size = (2, 1024, 32, 64)
    operands = empty(*size, dtype=COMPLEX, grad=True), empty(*size, dtype=COMPLEX)
    return lambda a, b: (a * b).abs(), operands


_GATHERED = (10_000, 64), (50_000, 64)

CASES: tuple[Case, ...] = (
    Case("mm-1024", "product", _mm(1024, 1024, 1024)),
    Case("mm-4096", "product", _mm(4096, 4096, 4096)),
    Case("mm-512x768x3072", "product", _mm(512, 768, 3072)),
    Case("mm-tall", "product", _mm(64, 50_176, 64)),
    Case("mm-8-rows", "product", _mm(8, 4096, 4096)),
    Case("mm-1-row", "product", _mm(1, 4096, 4096)),
    Case("mm-float16", "product", _mm(1024, 1024, 1024, HALF)),
    Case("mm-bfloat16", "product", _mm(1024, 1024, 1024, BFLOAT)),
    Case(
        "mm-transposed", "product",
        _plain(lambda a, b: a.t() @ b.t(), (1024, 1024), (1024, 1024)),
    ),
    Case("bmm", "product", _plain(torch.bmm, (96, 128, 64), (96, 64, 128))),
    Case("linear", "product", _linear(512, 768, 3072)),
    Case("linear-float16", "product", _linear(512, 768, 3072, HALF)),
    Case("linear-1-row", "product", _linear(1, 4096, 4096)),
    Case("linear-training", "product", _layer(lambda: nn.Linear(768, 768), 512, 768), True),
    Case("conv-3x3-64", "convolution", _conv(64, 64, 3, size=56)),
    Case("conv-3x3-256", "convolution", _conv(256, 256, 3, size=14)),
    Case("conv-3x3-512-one-image", "convolution", _conv(512, 512, 3, size=7, batch=1)),
    Case("conv-3x3-stride-2", "convolution", _conv(64, 128, 3, size=56, stride=2)),
    Case("conv-1x1", "convolution", _conv(256, 64, 1, size=56)),
    Case("conv-7x7", "convolution", _conv(3, 64, 7, size=224, stride=2)),
    Case("conv-depthwise", "convolution", _conv(96, 96, 3, size=56, groups=96)),
    Case("conv-float16", "convolution", _conv(64, 64, 3, size=56, dtype=HALF)),
    Case(
        "conv-float16-training",
        "convolution",
        _conv(64, 64, 3, size=56, dtype=HALF, grad=True),
        training=True,
    ),
    Case("conv-3x3-training", "convolution", _conv(64, 64, 3, size=56, grad=True), True),
    Case("conv-1x1-training", "convolution", _conv(256, 64, 1, size=28, grad=True), True),
    Case(
        "conv-depthwise-training", "convolution",
        _conv(96, 96, 3, size=56, groups=96, grad=True), True,
    ),
    Case("attention", "attention", _attention()),
    Case("attention-float16", "attention", _attention(dtype=HALF)),
    Case("attention-heads-of-128", "attention", _attention(head=128)),
    Case(
        "attention-float16-training", "attention", _attention(head=128, dtype=HALF, grad=True), True
    ),
    Case("attention-one-query", "attention", _attention(1, 1024, causal=False)),
    Case("attention-training", "attention", _attention(grad=True), True),
    Case("softmax", "rows", _plain(lambda x: x.softmax(-1), (4096, 1024))),
    Case("softmax-long", "rows", _plain(lambda x: x.softmax(-1), (16, 50_257))),
    Case("softmax-float16", "rows", _plain(lambda x: x.softmax(-1), (4096, 1024), dtype=HALF)),
    Case("layer-norm-training", "rows", _layer(lambda: nn.LayerNorm(768), 4096, 768), True),
    Case("batch-norm-training", "rows", _layer(lambda: nn.BatchNorm2d(64), 16, 64, 56, 56), True),
    Case("group-norm", "rows", _layer(lambda: nn.GroupNorm(32, 256), 8, 256, 28, 28)),
    Case("sum-rows", "rows", _plain(lambda x: x.sum(1), (4096, 4096))),
    Case("sum-columns", "rows", _plain(lambda x: x.sum(0), (4096, 4096))),
    Case("sum-all", "rows", _plain(torch.sum, (4096, 4096))),
    Case("argmax", "rows", _plain(lambda x: x.argmax(-1), (64, 50_257))),
    Case("cumsum-rows", "rows", _plain(lambda x: x.cumsum(-1), (512, 4096))),
    Case("cumsum-all", "rows", _plain(lambda x: x.cumsum(0), (1 << 20,))),
    Case("max-pool-training", "rows", _trained(lambda x: F.max_pool2d(x, 3, 2, 1),
         (16, 64, 112, 112)), True),
    Case("average-pool", "rows", _plain(lambda x: F.adaptive_avg_pool2d(x, 1), (16, 512, 7, 7))),
    Case("gelu", "points", _plain(_gelu, (4096, 4096), (4096, 4096))),
    Case("gelu-float16", "points", _plain(_gelu, (4096, 4096), (4096, 4096), dtype=HALF)),
    Case("broadcast-add", "points", _plain(torch.add, (16, 64, 56, 56), (64, 1, 1))),
    Case("transpose", "points", _plain(lambda x: x.t().contiguous() + 1, (4096, 4096))),
    Case(
        "permute", "points",
        _plain(lambda x: x.permute(0, 2, 1, 3).contiguous(), (8, 512, 12, 64)),
    ),
    Case("concatenate", "points", _plain(lambda x, y: torch.cat([x, y], 1),
         (16, 64, 56, 56), (16, 64, 56, 56))),
    Case("complex-multiply", "points", _plain(torch.mul, *[(2, 1024, 32, 64)] * 2, dtype=COMPLEX)),
    Case("complex-multiply-training", "points", _complex_product, True),
    Case("fft-256", "points", _plain(torch.fft.fft, (512, 256), dtype=COMPLEX)),
    Case("cholesky-16", "matrices", _plain(torch.linalg.cholesky, (4096, 16, 16))),
    Case("inverse-8", "matrices", _plain(torch.linalg.inv, (4096, 8, 8))),
    Case("solve-32", "matrices", _plain(torch.linalg.solve, (1024, 32, 32), (1024, 32, 4))),
    Case("qr-16", "matrices", _plain(torch.linalg.qr, (1024, 16, 16))),
    Case("gather", "indices", lambda: (_gather, (empty(*_GATHERED[0]), _indices(*_GATHERED[1])))),
    Case(
        "scatter-add", "indices",
        lambda: (
            _scatter, (empty(*_GATHERED[0]), _indices(*_GATHERED[1]), empty(*_GATHERED[1]))
        ),
    ),
    Case(
        "embedding-training", "indices",
        lambda: (nn.Embedding(30_000, 256), (_indices(16, 128),)), True,
    ),
    Case("sort", "indices", _plain(lambda x: x.sort(-1), (512, 4096))),
    Case("top-k", "indices", _plain(lambda x: x.topk(50, -1), (64, 50_257))),
    Case("resnet-block", "networks", lambda: (Bottleneck().eval(), (empty(16, 256, 28, 28),))),
    Case(
        "resnet-block-training", "networks",
        lambda: (Bottleneck(), (empty(16, 256, 28, 28, grad=True),)), True,
    ),
    Case("transformer-block", "networks", lambda: (Block().eval(), (empty(4, 128, 768),))),
    Case(
        "transformer-block-training", "networks",
        lambda: (Block(), (empty(4, 128, 768, grad=True),)), True,
    ),
)  # fmt: skip
