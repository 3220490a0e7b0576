"""Symbolic sizes that integers alone do not express: they are computed before a launch."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from agreement import PROFILES, compiled, random, two_drivers
from torch import Tensor
from torch.nn import functional as F

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


def nearest(x: Tensor) -> Tensor:
    return F.interpolate(x[None], scale_factor=1.5, mode="nearest-exact")


def linear(x: Tensor) -> Tensor:
    return F.interpolate(x[None], scale_factor=1.7, mode="linear") * 2


def bicubic(x: Tensor) -> Tensor:
    return F.interpolate(x[None, None], scale_factor=1.3, mode="bicubic")


def truncated(x: Tensor) -> Tensor:
    return x[: int(x.shape[0] * 0.3) + 1] * x.shape[0] ** 0.5


def rounded(x: Tensor) -> Tensor:
    return x.view(-1)[: math.ceil(x.numel() / 3)].sum() + round(x.shape[0] * 0.4)


def product(x: Tensor) -> Tensor:
    return (x @ x.t())[: int(x.shape[0] * 0.7)].softmax(-1)


def joined(x: Tensor) -> Tensor:
    rows = torch.cat([x, x[: int(x.shape[0] * 0.7)]])
    return rows.flip(0)[::2] / math.sqrt(x.shape[1])


def doubled(x: Tensor) -> Tensor:
    return x.double() * (0.1 / x.shape[1])


def counted(x: Tensor) -> Tensor:
    positions = torch.arange(int(x.shape[0] * 1.5)).float()
    return positions + x.sum() + int(math.log2(x.shape[0]))


@everywhere
@pytest.mark.parametrize(
    "function",
    [nearest, linear, bicubic, truncated, rounded, product, joined, counted, doubled],
    ids=lambda f: f.__name__,
)
def test_sizes_by_formula(function: Callable[[Tensor], Tensor], driver: str, profile: str) -> None:
    call = compiled(function, driver, dynamic=True, profile=profile, fallback="error")
    for rows, columns in ((20, 3), (31, 8), (7, 33)):
        x = random(rows, columns)
        want = function(x)
        tolerance = 1e-12 if want.dtype is torch.float64 else 1e-4
        torch.testing.assert_close(call(x), want, rtol=tolerance, atol=tolerance)
