"""Our random operators: lowered, they give the numbers that the host's implementation gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from evaluate import Harness

from ocl_inductor.operators.random_numbers import KINDS, UNIFORM_BITS, ops

SIZES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (7,), (3, 0, 2), (5, 1, 6), (64,))
SEED = torch.tensor(-6148914691236517206)


def lowered(target: Any, *args: Any) -> torch.Tensor:
    harness = Harness()
    return harness.compute(harness.lower(target, SEED, *args))


@pytest.mark.parametrize("dtype", UNIFORM_BITS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_random(size: tuple[int, ...], kind: str, dtype: torch.dtype) -> None:
    args = (3, list(size), kind, dtype)
    got, want = lowered(ops.random.default, *args), ops.random(SEED, *args)
    torch.testing.assert_close(got, want, rtol=0, atol=0)


BOUNDS = (
    (0, 1), (0, 2), (-5, 9), (0, 2**31), (-(2**31), 2**31), (7, 2**40), (-(2**63), 2**63 - 1),
)  # fmt: skip


@pytest.mark.parametrize(("low", "high"), BOUNDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_random_integers(size: tuple[int, ...], low: int, high: int) -> None:
    args = (2, list(size), low, high)
    got = lowered(ops.random_integers.default, *args)
    assert torch.equal(got, ops.random_integers(SEED, *args))
    assert ((got >= low) & (got < high)).all()


@pytest.mark.parametrize("dtype", UNIFORM_BITS, ids=str)
def test_uniform_numbers_fill_their_interval(dtype: torch.dtype) -> None:
    """Multiples of 2**-bits, none of which is 1."""
    x = ops.random(SEED, 0, [200000], "uniform", dtype).double()
    steps = x * 2.0 ** UNIFORM_BITS[dtype]
    assert torch.equal(steps, steps.round())
    assert 0 <= x.min() < 0.01 and 0.99 < x.max() < 1
    assert abs(x.mean() - 0.5) < 0.004 and abs(x.var() - 1 / 12) < 0.001


@pytest.mark.parametrize(("dtype", "largest"), [(torch.float32, 31), (torch.float64, 63)])
def test_normal_numbers_are_finite(
    dtype: torch.dtype, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever bits are drawn: all zero, all one, and only the radius's or the angle's."""
    from ocl_inductor.operators import philox

    patterns = (0, -1, 2**32 - 1, -(2**32), 2**31 - 1, 2**63 - 1, -(2**63))
    for bits in patterns:
        monkeypatch.setattr(philox, "random64", lambda i, *_, b=bits: torch.full_like(i, b))
        x = ops.random(SEED, 0, [1], "normal", dtype)
        assert x.isfinite().all()
        assert x.abs() <= math.sqrt(2 * math.log(2) * (largest + 1)) + 1e-5
        assert torch.equal(lowered(ops.random.default, 0, [1], "normal", dtype).isfinite(), x == x)


def test_open_numbers_have_logarithms(monkeypatch: pytest.MonkeyPatch) -> None:
    from ocl_inductor.operators import philox

    for bits in (0, -1):
        for name in ("random32", "random64"):
            dtype = torch.int32 if name == "random32" else torch.int64
            monkeypatch.setattr(
                philox, name, lambda i, *_, b=bits, d=dtype: torch.full_like(i, b, dtype=d)
            )
        for dtype in (torch.float32, torch.float64):
            x = ops.random(SEED, 0, [1], "open", dtype)
            assert 0 < x < 1 and x.log().isfinite() and (1 - x).log().isfinite()


def test_seeds_follow_the_generator() -> None:
    torch.manual_seed(5)
    a, b = ops.draw_seed("forward"), ops.draw_seed("forward")
    torch.manual_seed(5)
    assert a != b and ops.draw_seed("forward") == a
