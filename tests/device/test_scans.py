"""Running sums, products, extrema and log-sums against eager, on two drivers in both profiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, compiled, random, two_drivers

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@everywhere
def test_running_numbers(driver: str, profile: str) -> None:
    def fn(x: Any, h: Any, i: Any, b: Any, d: Any) -> Any:
        return (
            x.cumsum(1), x.cumprod(0), x.logcumsumexp(2), x.logcumsumexp(0),
            h.cumsum(0), h.logcumsumexp(-1), i.cumsum(0), i.cumprod(1), b.cumsum(1),
            d.logcumsumexp(0), d.cumprod(1),
        )  # fmt: skip

    x, h = torch.randn(3, 17, 29), torch.randn(5, 11).half()
    i, b = random(7, 9, dtype=torch.int32), random(4, 130, dtype=torch.bool)
    agree(fn, x, h, i, b, random(13, 6).double(), device=driver, profile=profile, fallback="error")


@everywhere
def test_running_extrema(driver: str, profile: str) -> None:
    def fn(x: Any, i: Any, b: Any) -> Any:
        return x.cummax(1), x.cummin(0), i.cummax(0), i.cummin(1), b.cummax(0), b.cummin(1)

    x = (torch.randn(9, 40) * 3).round()
    x[2, 7], x[5, 3], x[6, 0] = float("nan"), float("nan"), -float("inf")
    i, b = random(31, 5, dtype=torch.int64), random(6, 7, dtype=torch.bool)
    agree(fn, x, i, b, device=driver, profile=profile, fallback="error")


@everywhere
def test_nonfinite_log_sums(driver: str, profile: str) -> None:
    inf, nan = float("inf"), float("nan")
    rows = [
        [-inf, -inf, 1, 2, -inf],
        [1, inf, 2, inf, 0],
        [inf, -inf, 3, 0, 0],
        [0, nan, 1, 2, inf],
    ]
    x = torch.tensor([*rows, [-1e4, 0, 1e4, -1e30, 88.0]])
    agree(lambda x: x.logcumsumexp(1), x, device=driver, profile=profile, fallback="error")


@pytest.mark.parametrize("driver", two_drivers())
def test_long_rows(driver: str) -> None:
    def fn(x: Any, i: Any) -> Any:
        return x.cumsum(1), x.logcumsumexp(1), x.cummax(1), i.cumsum(0), i.cummin(0)

    i = random(50_001, dtype=torch.int64)
    agree(fn, torch.randn(2, 20_011), i, device=driver, fallback="error")


@pytest.mark.parametrize("driver", two_drivers())
def test_sizes_at_the_edge(driver: str) -> None:
    def fn(a: Any, b: Any, c: Any) -> Any:
        return [(x.cumsum(-1), x.cumprod(0), x.cummax(0), x.logcumsumexp(-1)) for x in (a, b, c)]

    agree(fn, torch.zeros(3, 0), torch.randn(4, 1), torch.tensor(2.0), device=driver)


@pytest.mark.parametrize("driver", two_drivers())
def test_gradients(driver: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1) * x.cumprod(1) + x.cummax(1)[0] * x.logcumsumexp(0)

    x = torch.rand(5, 7, requires_grad=True)
    (expected,) = torch.autograd.grad(fn(x).sum(), x)
    (actual,) = torch.autograd.grad(compiled(fn, driver)(x).sum(), x)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
