"""Reductions with several running values side by side, at every way a row may end; kernels that ask
ahead for what they read; exponentials and shares of a softmax."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from torch.nn import functional as F

from ocl_inductor.codegen.passes import streams

each_driver = pytest.mark.parametrize("driver", two_drivers())


def _rows(x: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    return x.sum(-1), centred.square().sum(-1), x.amax(-1), (x * 2 + 1).amin(-1), x[:, :40].prod(-1)


#: Whole vectors, but no whole round of four; a vector that overlaps the
#: one before; sums in pieces, with a last piece that is short.
@each_driver
@pytest.mark.parametrize("columns", [336, 345, 4176])
def test_ends_of_rows(driver: str, columns: int) -> None:
    x = random(5, columns)
    agree(_rows, x, device=driver, profile="vector")


@each_driver
def test_sizes_known_at_a_call_only(driver: str) -> None:
    f = compiled(_rows, driver, dynamic=True, profile="vector")
    for columns in (47, 64, 200, 2311):
        x = random(3, columns)
        for got, want in zip(f(x), _rows(x.double()), strict=True):
            torch.testing.assert_close(got, want.float(), rtol=2e-5, atol=2e-5)


@each_driver
def test_nan_wherever_it_is(driver: str) -> None:
    """Every running value keeps what is no number, and so does their combination."""
    x = random(200, 192)
    for row in range(192):
        x[row, row] = torch.nan
    extremes = compiled(lambda x: (x.amax(-1), x.amin(-1)), driver, profile="vector")
    for got in extremes(x):
        assert got[:192].isnan().all()
        assert not got[192:].isnan().any()


@each_driver
def test_softmax_of_extremes(driver: str) -> None:
    """Rows with infinities or NaN, equal numbers, and weights down to the subnormal ones."""
    x = random(8, 320)
    x[0, 7], x[1, 9], x[2, 11] = torch.inf, -torch.inf, torch.nan
    x[3], x[4] = -torch.inf, 3.5
    x[5] = torch.linspace(-110, 0, 320)
    x[6] = 3e38

    def fn(x: Any) -> Any:
        return x.softmax(-1), x.log_softmax(-1), x.logsumexp(-1)

    agree(fn, x, device=driver, profile="vector", rtol=2e-6, atol=2e-6)
    share, want = compiled(fn, driver, profile="vector")(x)[0][5], x[5].double().softmax(-1)
    torch.testing.assert_close(share.double(), want, rtol=1e-6, atol=3e-45)


@each_driver
def test_asking_ahead(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beyond the last row, and at addresses that no vector is aligned to."""
    monkeypatch.setattr(streams, "LEAST_CACHES", 2**-10)

    def fn(x: Any, y: Any, w: Any) -> Any:
        normal = F.layer_norm(x, x.shape[-1:], w)
        return F.gelu(x * y + w).sum(-1), normal.softmax(-1), (x.double() * 2).sum(-1), x.exp() - y

    x, y, w = random(17 * 333 + 1)[1:].view(17, 333), random(17, 333), random(333)
    agree(fn, x, y, w, device=driver, profile="vector")


@each_driver
def test_errors_are_not_larger_than_eagers(driver: str) -> None:
    """Of all errors against float64 together, over a range of operands.

    The largest of 130 000 is chance, up to a few times.
    """
    x = torch.cat([random(64, 1024), random(64, 1024) * 4])

    def fn(x: Any) -> Any:
        return (
            F.gelu(x),
            F.layer_norm(x, (1024,)).softmax(-1),
            x.log_softmax(-1),
            x.square().sum(-1),
        )

    got, eager, exact = compiled(fn, driver, profile="vector")(x), fn(x), fn(x.double())
    for a, e, want in zip(got, eager, exact, strict=True):
        ours, theirs = (a - want).abs(), (e - want).abs()
        assert ours.square().mean().sqrt() <= 2 * theirs.square().mean().sqrt()
        assert ours.mean() <= 2 * theirs.mean()
        assert ours.max() <= 5 * theirs.max()
