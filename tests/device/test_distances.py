"""Distances between rows against eager, on two drivers in both profiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import PROFILES, agree, compiled, two_drivers

NORMS = (0.0, 0.5, 1.0, 1.7, 2.0, 3.0, float("inf"))

everywhere = pytest.mark.parametrize(
    "driver,profile", [(d, p) for d in two_drivers() for p in PROFILES]
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@everywhere
def test_distances(driver: str, profile: str) -> None:
    def fn(a: Any, b: Any, batch: Any, d: Any) -> Any:
        # Eager's maximum norm passes over NaN.
        near = [torch.cdist(a if p < 9 else a.nan_to_num(), b, p) for p in NORMS]
        return near, torch.cdist(batch, b, 3.0), torch.cdist(a, batch), torch.cdist(d, d, 1.0)

    a, b = torch.randn(7, 13), torch.randn(5, 13)
    b[2] = a[3]
    a[1, 1], a[0, 0] = float("nan"), float("inf")
    args = (a, b, torch.randn(2, 3, 4, 13), torch.randn(2, 4, 5).double())
    agree(fn, *args, device=driver, profile=profile, fallback="error")


@pytest.mark.parametrize("driver", two_drivers())
def test_no_rows_and_no_columns(driver: str) -> None:
    def fn(a: Any, b: Any) -> Any:
        return torch.cdist(a, b), torch.cdist(a[:0], b), torch.cdist(a[:, :0], b[:, :0], 1.0)

    agree(fn, torch.randn(3, 4), torch.randn(2, 4), device=driver, fallback="error")


@pytest.mark.parametrize("driver", two_drivers())
def test_gradients_of_nothing(driver: str) -> None:
    for a, b in (
        (torch.randn(4, 5), torch.randn(0, 3, 5)),
        (torch.randn(2, 0, 5), torch.randn(3, 5)),
    ):
        a.requires_grad_()
        (found,) = torch.autograd.grad(compiled(torch.cdist, driver)(a, b).sum(), a)
        assert found.shape == a.shape
        assert not found.any()


@pytest.mark.parametrize("driver", two_drivers())
def test_gradients(driver: str) -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.cdist(a, b, p) * (k + 1) for k, p in enumerate(NORMS)])

    a, b = torch.randn(2, 5, 6), torch.randn(2, 4, 6)
    b[0, 1] = a[0, 2]
    b[1, 1, 3] = a[1, 2, 3]
    a.requires_grad_()
    b.requires_grad_()
    expected = torch.autograd.grad(fn(a, b).sum(), (a, b))
    actual = torch.autograd.grad(compiled(fn, driver, fallback="error")(a, b).sum(), (a, b))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [p for p in NORMS if p > 0])
@pytest.mark.parametrize("driver", two_drivers())
def test_gradients_of_special_values(driver: str, p: float) -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cdist(a, b, p, compute_mode="donot_use_mm_for_euclid_dist")

    a, b = torch.randn(5, 6), torch.randn(4, 6)
    if p < 9:  # eager's maximum norm passes over NaN
        a[0, 1] = float("nan")
        b[0, 2] = float("inf")
    a[1, 2] = float("inf")
    b[1, 3] = -float("inf")
    a.requires_grad_()
    pairs = torch.nn.functional.pdist
    for eager, args in ((fn, (a, b)), (lambda a: pairs(a, p), (a,))):
        weight = torch.randn_like(eager(*args).detach())
        expected = torch.autograd.grad((eager(*args) * weight).sum(), a)
        actual = torch.autograd.grad((compiled(eager, driver)(*args) * weight).sum(), a)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
