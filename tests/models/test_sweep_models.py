"""Rows of the sweep run eagerly: they build, give finite numbers, and train where they say so."""

from __future__ import annotations

import pytest
import torch

from ocl_inductor.sweep.rows.build import build
from ocl_inductor.sweep.rows.check import check
from ocl_inductor.sweep.rows.config import load_all
from ocl_inductor.sweep.rows.schema import Mode

ROWS = load_all()
SMALL = ["lennard_jones", "phlippe_resnet", "soft_actor_critic"]
CASES = [(name, mode) for name, row in ROWS.items() for mode in row.modes]


@pytest.mark.parametrize("name", SMALL)
def test_small_rows_run(name: str) -> None:
    for mode in ROWS[name].modes:
        assert check(ROWS[name], mode).problem == ""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), CASES, ids=str)
def test_every_row_runs(name: str, mode: Mode) -> None:
    assert check(ROWS[name], mode).problem == ""


def test_a_seed_determines_weights_and_inputs() -> None:
    state = torch.random.get_rng_state()
    first, second = (build(ROWS["phlippe_resnet"], batch_size=2) for _ in range(2))
    other = build(ROWS["phlippe_resnet"], batch_size=2, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first.forward(), second.forward())
    assert not torch.equal(first.args[0], other.args[0])
    assert not torch.allclose(first.forward(), other.forward())


def test_dtypes_hold_the_same_numbers() -> None:
    single = build(ROWS["soft_actor_critic"], batch_size=2)
    double = build(ROWS["soft_actor_critic"], batch_size=2, dtype=torch.float64)
    assert double.args[0].dtype is torch.float64
    for a, b in zip(single.forward(), double.forward(), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-5)
