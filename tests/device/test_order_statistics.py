"""kthvalue, median, nanmedian and mode against eager, on two drivers in both profiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from abilities import where_pytorch_can
from agreement import PROFILES, agree, compiled, poisoned_memory, two_drivers
from test_sorting import awkward

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@everywhere
def test_order_statistics(driver: str, profile: str) -> None:
    def fn(x: Any, i: Any, h: Any) -> Any:
        some = x.kthvalue(4, 1), x.kthvalue(9, 0, keepdim=True), h.kthvalue(2), i.kthvalue(5)
        middle = x.median(1), x.nan_to_num().median(0, keepdim=True), i.median(-1), h.median(-1)
        numbers = x.nanmedian(1), i.nanmedian(0), x.nanmedian(0, keepdim=True)
        # Eager's mode sorts by "<" alone, so that NaN leaves a row in no particular order.
        numeric = x.nan_to_num(), h.nan_to_num()
        frequent = numeric[0].mode(1), i.mode(0, keepdim=True), numeric[1].mode(-1)
        return some, middle, numbers, frequent

    x, i, h = awkward(11, 37), awkward(6, 35, dtype=torch.int64), awkward(3, 40).half()
    x[4] = float("nan")
    with poisoned_memory():
        actual = compiled(fn, driver, profile=profile, fallback="error")(x, i, h)
    sources = [(x, 1), (x, 0), (h, 1), (i, 1)]
    sources += [(x, 1), (x.nan_to_num(), 0), (i, 1), (h, 1), (x, 1), (i, 0), (x, 0)]
    sources += [(x.nan_to_num(), 1), (i, 0), (h.nan_to_num(), 1)]
    flat = [pair for group in actual for pair in group]
    wanted = [pair for group in fn(x, i, h) for pair in group]
    for (values, indices), (expected, _), (source, dim) in zip(flat, wanted, sources, strict=True):
        torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
        if indices.ndim < source.ndim:
            values, indices = values.unsqueeze(dim), indices.unsqueeze(dim)
        there = source.gather(dim, indices)
        torch.testing.assert_close(there, values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("driver", two_drivers())
def test_statistics_of_all(driver: str) -> None:
    def fn(x: Any, i: Any, one: Any) -> Any:
        numbers = x.nan_to_num(0.5)
        return (
            x.median(), x.nanmedian(), numbers.median(), i.median(), i.nanmedian(),
            one.median(0), one.mode(0), one.kthvalue(1),
        )  # fmt: skip

    x = awkward(31, 40).clamp(-3, 3)
    agree(fn, x, awkward(50, dtype=torch.int32), torch.tensor(3.0), device=driver)


@pytest.mark.parametrize("driver", two_drivers())
def test_a_quantile(driver: str) -> None:
    def fn(x: Any) -> Any:
        return x.nan_to_num(0.5).quantile(0.3, 1)

    x = awkward(31, 40).clamp(-3, 3)
    with where_pytorch_can(fn, x):  # before 2.12 it has no shape function
        agree(fn, x, device=driver)


@pytest.mark.parametrize("driver", two_drivers())
def test_gradients(driver: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.median(0)[0] * torch.arange(9) + x.kthvalue(2, 0)[0]

    x = torch.randn(6, 9, requires_grad=True)
    (expected,) = torch.autograd.grad(fn(x).sum(), x)
    (actual,) = torch.autograd.grad(compiled(fn, driver, fallback="error")(x).sum(), x)
    torch.testing.assert_close(actual, expected)
