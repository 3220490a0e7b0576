"""What one core has done before others were told of it: codegen/launches/single_core.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sympy

from ocl_inductor.codegen.cost import Cost
from ocl_inductor.codegen.launches.single_core import (
    fits_one_core,
    is_known,
    saved_by_others,
    seconds_alone,
)
from ocl_inductor.device.cpu.caches import Caches
from ocl_inductor.device.cpu.core_costs import CoreCosts


def device(lanes: int = 8, units: int = 2) -> Any:
    """Each launch takes 4 µs more than in the calling thread, and a wait 1."""
    return SimpleNamespace(
        vector_width=lanes, compute_units=units, caches=Caches(), core=CoreCosts(),
        launch_s=4e-6, wait_s=1e-6,
    )  # fmt: skip


def lasting(seconds: float) -> Cost:
    """A kernel that one core takes so long for, of arithmetic alone."""
    return Cost(round(seconds / seconds_alone(Cost(1, 0, 0), device())), 0, 0)


@pytest.mark.parametrize(
    ("units", "work_groups", "saved"),
    [(2, 100, 5e-6), (4, 100, 7.5e-6), (4, 2, 5e-6), (4, 1, 0.0), (1, 100, 0.0)],
)
def test_others_save_what_there_is_for_them(units: int, work_groups: int, saved: float) -> None:
    found = saved_by_others(lasting(10e-6), work_groups, device(units=units))
    assert found == pytest.approx(saved, rel=1e-3)


@pytest.mark.parametrize(
    ("saved", "launches", "sooner"),
    [(4e-6, 1, True), (6e-6, 1, False), (16e-6, 4, True), (18e-6, 4, False)],
)
def test_telling_others_takes_time(saved: float, launches: int, sooner: bool) -> None:
    assert fits_one_core(saved, launches, device()) is sooner


def test_wider_vectors_take_less() -> None:
    cost = Cost(10_000, 20_000, 1000)
    assert seconds_alone(cost, device(16)) == pytest.approx(seconds_alone(cost, device(8)) / 2)


def test_the_core_is_a_fact_of_the_device() -> None:
    slow = device()
    slow.core = CoreCosts(flops_per_lane=CoreCosts().flops_per_lane / 2)
    arithmetic, memory = Cost(10_000, 0, 0), Cost(0, 20_000, 0)
    assert seconds_alone(arithmetic, slow) == 2 * seconds_alone(arithmetic, device())
    assert seconds_alone(memory, slow) == seconds_alone(memory, device())


def test_memory_is_slower_than_caches() -> None:
    small, large = (seconds_alone(Cost(0, n, 0), device(16)) for n in (1 << 20, 2 << 20))
    assert large > 4 * small


def test_sizes_that_nobody_knows_yet() -> None:
    assert is_known(Cost(0, 4, 0))
    assert not is_known(Cost(0, 4 * sympy.Symbol("n"), 0))
