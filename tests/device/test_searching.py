"""searchsorted, bucketize and histc against eager, on two drivers in both profiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, random, two_drivers

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@everywhere
def test_places_in_boundaries(driver: str, profile: str) -> None:
    """Ties, NaN, infinities, values outside, boundaries by row, and a sorter."""

    def fn(s: Any, x: Any, rows: Any, i: Any, order: Any, unsorted: Any) -> Any:
        return (
            torch.searchsorted(s, x),
            torch.searchsorted(s, x, right=True, out_int32=True),
            torch.searchsorted(rows, x, side="right"),
            torch.searchsorted(unsorted, x, sorter=order),
            torch.searchsorted(s, 0.25),
            torch.bucketize(x, s, right=True),
            torch.bucketize(i, i.flatten()[:1]),
            torch.bucketize(x * 2, s[:0]),
        )

    s = (torch.randn(67) * 4).round().div(4).sort()[0]
    s[-3:], s[0] = float("nan"), -float("inf")
    x = (torch.randn(5, 19) * 4).round() / 4
    x[0, 0], x[1, 1], x[2, 2] = float("nan"), float("inf"), -float("inf")
    unsorted = torch.randn(31)
    args = (s, x, torch.randn(5, 8).sort()[0], random(3, 7, dtype=torch.int64))
    order = unsorted.argsort()
    agree(fn, *args, order, unsorted, device=driver, profile=profile, fallback="error")


@pytest.mark.parametrize("driver", two_drivers())
def test_lengths_and_dtypes(driver: str) -> None:
    for dtype in (torch.float64, torch.float16, torch.int32, torch.uint8):
        torch._dynamo.reset()
        sequences = [random(n, dtype=dtype).sort()[0] for n in (1, 2, 3, 1000)]

        def fn(x: Any, *sequences: Any) -> Any:
            return [torch.searchsorted(s, x) for s in sequences]

        agree(fn, random(50, dtype=dtype), *sequences, device=driver, fallback="error")


@everywhere
def test_histogram(driver: str, profile: str) -> None:
    def fn(x: Any, long: Any, d: Any) -> Any:
        return (
            torch.histc(x, 10, -2, 2), torch.histc(x, 1, 0, 3), torch.histc(long, 32, -3, 3),
            torch.histc(d, 7, -1, 1), torch.histc(x[:0], 4, 0, 1),
        )  # fmt: skip

    x, long = torch.randn(13, 11), torch.randn(10_007)
    x[0, 0], x[1, 0], x[2, 0], x[3, 0] = float("nan"), float("inf"), 2.0, -2.0
    agree(fn, x, long, torch.randn(100).double(), device=driver, profile=profile, fallback="error")


@everywhere
def test_histograms_over_the_range_of_the_elements(driver: str, profile: str) -> None:
    def fn(x: Any, long: Any, d: Any, alike: Any) -> Any:
        return (
            torch.histc(x), torch.histc(x, 7), torch.histc(long, 32), torch.histc(d, 5),
            torch.histc(alike, 4), torch.histc(x, 6, 2, 2), torch.histc(x[:0], 3),
        )  # fmt: skip

    options = {"device": driver, "profile": profile, "fallback": "error"}
    alike = torch.full((9,), 3.0)
    agree(fn, torch.randn(13, 11), torch.randn(10_007), torch.randn(100).double(), alike, **options)
    compiled = torch.compile(lambda x: torch.histc(x, 4), backend="opencl", options=options)
    for number in ("nan", "inf", "-inf"):
        x = torch.randn(50)
        x[7] = float(number)
        with pytest.raises(RuntimeError, match="not finite"):
            compiled(x)


@everywhere
def test_histograms_of_any_number_of_elements(driver: str, profile: str) -> None:
    options = {"device": driver, "profile": profile, "fallback": "error"}

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.histc(x, 8, -2, 2)

    compiled = torch.compile(fn, backend="opencl", dynamic=True, options=options)
    for n in (64, 3, 4097, 2, 20_000, 0):
        x = 2 * torch.randn(n)
        assert torch.equal(compiled(x), fn(x)), n
