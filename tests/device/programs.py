"""Small programs of every shape of kernel, which several test files run in different ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from agreement import random
from torch import nn

Inputs = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """A function, how to make its inputs, and what is known about it.

    ``kernels``: launches of one call in the vector and in the simt profile. ``prologue``: launches
    that happen once, for parameters.
    """

    name: str
    fn: Callable[..., Any]
    inputs: Inputs
    kernels: tuple[int, int] = (1, 1)
    prologue: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return self.name


def frozen(module: nn.Module) -> nn.Module:
    """The module for inference, every parameter away from its initial zeros and ones."""
    generator = torch.Generator().manual_seed(0)
    module.eval().requires_grad_(False)
    for name, p in [*module.named_parameters(), *module.named_buffers()]:
        if p.dtype.is_floating_point:
            if "running_var" in name:
                p.uniform_(0.5, 2, generator=generator)
            elif p.ndim == 1:
                p.normal_(generator=generator)
            else:
                p.normal_(generator=generator).mul_(p[0].numel() ** -0.5)
    return module


class Residual(nn.Module):
    """Convolution, batch norm, residual and ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)) + x)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v


def indices(count: int, *size: int) -> torch.Tensor:
    return torch.randint(-count, count, size)


PROGRAMS = [
    Program(
        "pointwise",
        lambda x, y: F.gelu(x * 2 + y).relu().sigmoid(),
        lambda: (random(33, 17), random(17)),
    ),
    Program("softmax", lambda x: x.softmax(-1), lambda: (random(19, 127),)),
    Program("softmax_0", lambda x: x.softmax(0), lambda: (random(127, 19),)),
    Program("log_softmax", lambda x: x.log_softmax(-1), lambda: (random(5, 1021),)),
    Program(
        "layer_norm",
        lambda x, w, b: F.layer_norm(x, (77,), w, b).relu() * 2,
        lambda: (random(13, 77), random(77), random(77)),
    ),
    Program(
        "group_norm",
        lambda x, w, b: F.group_norm(x, 4, w, b),
        lambda: (random(2, 16, 5, 7), random(16), random(16)),
        (2, 2),
    ),
    Program(
        "sum_of_pointwise",
        lambda x, y: (x * y).exp().sum(-1),
        lambda: (random(9, 65), random(9, 65)),
    ),
    Program("sum_dim_0", lambda x: x.sum(0), lambda: (random(65, 33),)),
    Program("mean_all", lambda x: (x * x).mean(), lambda: (random(21, 33),)),
    Program(
        "several_reductions",
        lambda x: (x.sum(-1), x.amax(-1), x.mean(-1)),
        lambda: (random(21, 33),),
    ),
    Program("argmax", lambda x: (x.argmax(-1), x.amin(-1)), lambda: (random(21, 33),)),
    Program("cumsum", lambda x: x.cumsum(-1), lambda: (random(21, 33),)),
    Program("transpose", lambda x: x.t().contiguous() * 2, lambda: (random(21, 33),)),
    Program(
        "several_outputs",
        lambda x: (x + 1, x.relu(), (x + 1) * x.relu()),
        lambda: (random(21, 33),),
    ),
    Program(
        "linear_gelu",
        frozen(nn.Sequential(nn.Linear(37, 29), nn.GELU())),
        lambda: (random(11, 37),),
        prologue=(1, 0),
    ),
    Program(
        "matmul", lambda x, y: (x @ y).relu(), lambda: (random(21, 33), random(33, 40)), (2, 1)
    ),
    Program(
        "conv_relu",
        frozen(nn.Sequential(nn.Conv2d(3, 20, 3, stride=2, padding=1), nn.ReLU())),
        lambda: (random(2, 3, 15, 13),),
        (2, 1),
        (1, 1),
    ),
    Program("residual", frozen(Residual(8)), lambda: (random(2, 8, 9, 11),), (2, 1), (2, 2)),
    Program(
        "batch_norm",
        frozen(nn.Sequential(nn.BatchNorm2d(5), nn.ReLU())),
        lambda: (random(2, 5, 3, 7),),
        prologue=(1, 1),
    ),
    Program(
        "depthwise",
        frozen(nn.Conv2d(8, 8, 3, padding=1, groups=8)),
        lambda: (random(2, 8, 9, 11),),
        (2, 2),
        (1, 1),
    ),
    Program("attention", attention, lambda: tuple(random(2, 3, 13, 8) for _ in range(3))),
    Program("gather", lambda x, i: x[i] * 2, lambda: (random(17, 9), indices(17, 23))),
    Program(
        "embedding",
        lambda w, i: F.embedding(i, w).tanh(),
        lambda: (random(17, 33), torch.randint(0, 17, (3, 5))),
    ),
    Program(
        "scatter_add",
        lambda x, i, s: x.scatter_add(1, i, s),
        lambda: (random(7, 5), torch.randint(0, 5, (7, 19)), random(7, 19)),
        (2, 2),
    ),
    Program(
        "index_put",
        lambda x, i, s: x.index_put((i,), s, accumulate=True),
        lambda: (random(17, 5), indices(17, 23), random(23, 5)),
        (2, 2),
    ),
    Program(
        "cat",
        lambda x, y: torch.cat([x * 2, y.relu()], 1),
        lambda: (random(7, 9), random(7, 14)),
    ),
    Program("pad", lambda x: F.pad(x, (2, 3, 1, 0), value=0.5), lambda: (random(7, 9),)),
    Program("max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), lambda: (random(2, 3, 9, 11),)),
    Program(
        "upsample",
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda: (random(2, 3, 5, 7),),
        (2, 2),
        (3, 3),
    ),
    Program(
        "masked_softmax",
        lambda x, m: x.masked_fill(m, float("-inf")).softmax(-1),
        lambda: (random(9, 33), torch.rand(9, 33) < 0.3),
    ),
]

BY_NAME = {p.name: p for p in PROGRAMS}
