"""Sorting and selection against eager, on two drivers in both profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, compiled, poisoned_memory, random, two_drivers

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.uint8,
    torch.bool,
)

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def awkward(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Many ties; zeros of both signs, infinities and NaN where the dtype has them."""
    x = random(*size, dtype=dtype)
    if not dtype.is_floating_point:
        return x
    x = (x * 4).round() / 4
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0], dtype=dtype)
    chosen = torch.rand(size) < 0.2
    return torch.where(chosen, special[torch.randint(0, 5, size)], x)


def is_permutation_of(pair: Any, expected: Any, x: torch.Tensor, dim: int) -> None:
    """Values as in eager, and different indices at which those values are."""
    values, indices = pair
    assert indices.dtype is torch.int64 and indices.shape == expected[1].shape
    torch.testing.assert_close(values, expected[0], rtol=0, atol=0, equal_nan=True)
    there = x.gather(dim, indices)
    torch.testing.assert_close(there, values, rtol=0, atol=0, equal_nan=True)
    assert (indices.sort(dim)[0].diff(dim=dim) > 0).all(), "an index twice"


def check_topk(
    xs: Sequence[torch.Tensor], ks: Sequence[int], dims: Sequence[int], **options: Any
) -> None:
    """Largest and smallest of every tensor in one graph."""

    def fn(*xs: torch.Tensor) -> Any:
        return [x.topk(k, d, largest) for x, k, d in zip(xs, ks, dims) for largest in (True, False)]

    driver = options.pop("driver")
    with poisoned_memory():
        actual = compiled(fn, driver, fallback="error", **options)(*xs)
    for n, (mine, its) in enumerate(zip(actual, fn(*xs), strict=True)):
        is_permutation_of(mine, its, xs[n // 2], dims[n // 2])


@everywhere
def test_stable_sort(driver: str, profile: str) -> None:
    """Every dtype in one graph; indices too are eager's."""
    xs = [awkward(3, 70, dtype=d) for d in DTYPES]

    def fn(*xs: torch.Tensor) -> Any:
        return [torch.sort(x, dim=-1, descending=k % 2 == 0, stable=True) for k, x in enumerate(xs)]

    agree(fn, *xs, device=driver, profile=profile, fallback="error")


@everywhere
def test_rows_and_lengths(driver: str, profile: str) -> None:
    """One element, primes, rows of several blocks, other dimensions than the last."""

    def fn(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return (
            a.sort(stable=True),
            b.sort(dim=0, descending=True, stable=True),
            c.mT.sort(dim=1, stable=True),
            d.sort(stable=True),
            e.sort(dim=1, descending=True, stable=True),
            torch.argsort(c + 1, stable=True),
        )

    xs = (awkward(7, 1), awkward(13, 5), awkward(2, 3, 17), awkward(2, 4099), awkward(2, 1025, 3))
    agree(fn, *xs, device=driver, profile=profile, fallback="error")


@everywhere
def test_wide_rows(driver: str, profile: str) -> None:
    def fn(a: Any, b: Any) -> Any:
        return a.sort(stable=True), b.sort(stable=True, descending=True)

    xs = awkward(2, 2500, dtype=torch.float64), awkward(3000, dtype=torch.int64)
    agree(fn, *xs, device=driver, profile=profile, fallback="error")


@everywhere
def test_nothing_to_sort(driver: str, profile: str) -> None:
    def fn(a: Any, b: Any, c: Any) -> Any:
        return a.sort(), b.sort(0), c.topk(1, dim=0), b.topk(2, dim=1), c.sort(descending=True)

    agree(
        fn, torch.zeros(3, 0), torch.zeros(0, 3), torch.tensor(2.0), device=driver, profile=profile
    )


@pytest.mark.parametrize("driver", two_drivers())
def test_extremes_and_order_of_integers(driver: str) -> None:
    xs = []
    for dtype in (torch.int64, torch.int32, torch.int8):
        high, low = torch.iinfo(dtype).max, torch.iinfo(dtype).min
        xs.append(torch.tensor([0, high, low, -1, high, low, 1] * 5, dtype=dtype))
    tiny = torch.tensor([1e-45, -1e-45, 0.0, -0.0, 3e38, -3e38, 1e-40] * 5)

    def fn(*xs: torch.Tensor) -> Any:
        return [(x.sort(stable=True), x.sort(stable=True, descending=True)) for x in xs]

    agree(fn, *xs, tiny, device=driver, fallback="error", reference=False)


@pytest.mark.parametrize("driver", two_drivers())
def test_a_million(driver: str) -> None:
    x = torch.randn(1_000_003)
    agree(lambda x: x.sort(stable=True), x, device=driver, fallback="error")


@everywhere
def test_topk(driver: str, profile: str) -> None:
    xs = [
        awkward(5, 9),
        awkward(300, 5),
        awkward(3, 3000),
        awkward(2, 700, dtype=torch.int64),
        awkward(40_000),
    ]
    check_topk(xs, (3, 7, 40, 300, 20), (1, 0, 1, 1, 0), driver=driver, profile=profile)


@pytest.mark.parametrize("driver", two_drivers())
def test_selection_of_hard_rows(driver: str) -> None:
    """Every element enters, none enters, and keys at both ends of their range."""
    n = 3000
    rising = torch.arange(n, dtype=torch.float32)
    same = torch.full((n,), float("nan"))
    x = torch.stack([rising, -rising, same, torch.where(rising == 7, 1.0, same)])
    lowest = torch.full((2, n), torch.iinfo(torch.int32).min, dtype=torch.int32)
    check_topk([x, lowest], (10, 10), (1, 1), driver=driver)


@pytest.mark.parametrize("driver", two_drivers())
def test_gradients(driver: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        parts = x.sort(1)[0], x.topk(3)[0]
        return torch.cat([(p * torch.arange(p.numel()).view(p.shape)).flatten() for p in parts])

    x = torch.randn(6, 9, requires_grad=True)
    (expected,) = torch.autograd.grad(fn(x).sum(), x)
    (actual,) = torch.autograd.grad(compiled(fn, driver, fallback="error")(x).sum(), x)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("driver", two_drivers())
def test_symbolic_sizes(driver: str) -> None:
    fn = compiled(lambda x: (x * 2).sort(stable=True), driver, dynamic=True, fallback="error")
    for rows, n in ((3, 50), (5, 50), (4, 2000), (1, 1030)):
        x = awkward(rows, n)
        for mine, its in zip(fn(x), (x * 2).sort(stable=True), strict=True):
            torch.testing.assert_close(mine, its, rtol=0, atol=0, equal_nan=True)
