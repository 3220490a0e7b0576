"""Writes at computed places against eager: reductions of slices and points, put, masked_scatter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, random, two_drivers

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)

#: index_reduce warns in eager that it may change; that is no news here.
pytestmark = pytest.mark.filterwarnings("ignore:index_reduce")
REDUCTIONS = ("prod", "mean", "amax", "amin")


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@everywhere
def test_index_reduce(driver: str, profile: str) -> None:
    def fn(x: Any, index: Any, source: Any, i: Any, whole: Any) -> Any:
        return [
            (
                x.index_reduce(0, index, source, how, include_self=own),
                x.index_reduce(1, index, source.mT[:9], how, include_self=own),
                i.index_reduce(0, index, whole, how, include_self=own),
            )
            for how in REDUCTIONS
            for own in (True, False)
        ]

    x, source = torch.randn(9, 9), torch.randn(13, 9)
    source[3, 3] = float("nan")
    index = torch.randint(0, 7, (13,))
    i, whole = random(8, 3, dtype=torch.int64), random(13, 3, dtype=torch.int64)
    agree(fn, x, index, source, i, whole, device=driver, profile=profile, fallback="error")


@everywhere
def test_scatter_reduce(driver: str, profile: str) -> None:
    def fn(x: Any, index: Any, source: Any, h: Any) -> Any:
        return [
            (
                x.scatter_reduce(1, index, source, how, include_self=own),
                h.scatter_reduce(0, index, source.to(h.dtype), how, include_self=own),
            )
            for how in ("sum", *REDUCTIONS)
            for own in (True, False)
        ]

    x, index, source = torch.randn(6, 7), torch.randint(0, 6, (5, 4)), torch.randn(6, 8)
    agree(fn, x, index, source, torch.randn(9, 5).half(), device=driver, profile=profile)


@everywhere
def test_put_and_masked_scatter(driver: str, profile: str) -> None:
    def fn(x: Any, index: Any, values: Any, mask: Any, source: Any) -> Any:
        return (
            x.put(index, values),
            x.put(index, values, accumulate=True),
            x.mT.put(index[0], values[0]),
            x.masked_scatter(mask, source),
            x.masked_scatter(mask[:1], source + 1),
            x[0].masked_scatter(mask, source),
            x.take(index),
        )

    x = torch.randn(11, 17)
    index = torch.randint(-11 * 17, 11 * 17, (5, 6))
    mask = random(11, 17, dtype=torch.bool)
    args = (x, index, torch.randn(5, 6), mask, torch.randn(40, 5))
    agree(fn, *args, device=driver, profile=profile, fallback="error")


@pytest.mark.parametrize("driver", two_drivers())
def test_nothing_to_write(driver: str) -> None:
    def fn(x: Any, none: Any) -> Any:
        index = none.to(torch.int64)
        return (
            x.put(index, none),
            x.masked_scatter(torch.zeros(3, 4, dtype=torch.bool), none),
            x.index_reduce(0, index, x[:0], "amax"),
            x[1, 1].masked_scatter(x[0, 0] < 9, x),
        )

    agree(fn, torch.rand(3, 4), torch.zeros(0), device=driver, fallbacks=None)
