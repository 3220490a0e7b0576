"""Values that eager looks at and refuses are found by kernels; the call raises, the next works."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_same, compiled, random, two_drivers

from ocl_inductor.errors import RefusedValueError

each_driver = pytest.mark.parametrize("driver", two_drivers())
each_profile = pytest.mark.parametrize("profile", ["vector", "simt"])
FLOATING = [torch.float32, torch.float64, torch.float16]


def same_refusal(f: Callable[..., Any], run: Callable[..., Any], *args: Any) -> None:
    """With eager's text, as far as it does not speak of itself."""
    with pytest.raises(RuntimeError) as eager:
        f(*args)
    with pytest.raises(RefusedValueError) as found:
        run(*args)
    assert str(eager.value).partition(". ")[0].startswith(found.value.facts["says"])


def weights(*size: int, dtype: torch.dtype) -> torch.Tensor:
    """None of them 0, but for the first of each row."""
    drawn = (torch.rand(size) + 0.1).to(dtype)
    drawn[..., 0] = -0.0
    return drawn


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@each_profile
@each_driver
def test_weights_of_categories(
    dtype: torch.dtype, replacement: bool, profile: str, driver: str
) -> None:
    for count in (1, 3):

        def f(w: torch.Tensor, count: int = count) -> torch.Tensor:
            return torch.multinomial(w, count, replacement)

        torch.compiler.reset()
        run = compiled(f, driver, profile=profile, fallback="error")
        for bad in (-0.25, math.inf, -math.inf, math.nan, 0.0):
            w = weights(4, 37, dtype=dtype)
            assert run(w).shape == (4, count)
            # At the end of a row, where there are no whole vectors; and a row of nothing else.
            w[2, 36:] = bad
            if bad == 0:
                assert (run(w)[2] < 36).all()
                w[2] = 0
            same_refusal(f, run, w)


@each_driver
def test_one_row_of_weights(driver: str) -> None:
    run = compiled(lambda w: torch.multinomial(w, 2), driver, fallback="error")
    assert run(weights(9, dtype=torch.float32)).shape == (2,)
    same_refusal(lambda w: torch.multinomial(w, 2), run, torch.zeros(9))
    empty = compiled(lambda w: torch.multinomial(w, 2), driver, fallback="error")
    assert empty(torch.zeros(0, 9)).shape == (0, 2)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@each_profile
@each_driver
def test_probabilities_and_deviations(dtype: torch.dtype, profile: str, driver: str) -> None:
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "bernoulli": torch.bernoulli,
        "bernoulli in place": lambda p: torch.empty_like(p).bernoulli_(p),
        "normal": lambda p: torch.normal(0.0, p),
        "normal of two": lambda p: torch.normal(p, p),
    }
    for name, f in functions.items():
        torch.compiler.reset()
        run = compiled(f, driver, profile=profile, fallback="error")
        for bad in (-0.5, math.nan, 1.5):
            p = torch.rand(5, 33).to(dtype)
            p[0, :2] = torch.tensor([0.0, 1.0])
            assert run(p).dtype is dtype
            p[3, 32] = bad
            if bad < 0 or math.isnan(bad) or name.startswith("bernoulli"):
                same_refusal(f, run, p)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@each_profile
@each_driver
def test_binary_cross_entropy(reduction: str, profile: str, driver: str) -> None:
    """Forward and backward; input and target are between 0 and 1."""

    def f(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy(x, y, w, reduction=reduction)

    run = compiled(f, driver, profile=profile, fallback="error")
    x, y, w = torch.rand(7, 19), torch.rand(7, 19), random(7, 19)
    x[0, :2], y[0, :2] = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])
    assert_same(run(x, y, w), f(x.double(), y.double(), w.double()).float())
    for bad in (1.25, -0.5, math.nan):
        wrong = torch.where(torch.arange(19) == 18, bad, x)
        same_refusal(f, run, wrong, y, w)
        same_refusal(f, run, x, torch.where(torch.arange(19) == 18, bad, y), w)
    assert_same(run(x, y, w), f(x.double(), y.double(), w.double()).float())
    leaf = x[1:].clone().requires_grad_()
    compiled(f, driver, profile=profile, fallback="error")(leaf, y[1:], w[1:]).sum().backward()
    exact = x[1:].double().requires_grad_()
    f(exact, y[1:].double(), w[1:].double()).sum().backward()
    assert_same(leaf.grad, exact.grad.float(), rtol=1e-5, atol=1e-6)
