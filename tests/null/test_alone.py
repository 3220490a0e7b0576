"""What one core has done before others were told of it: codegen/alone.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sympy

from ocl_inductor.codegen.alone import seconds_alone, sooner_alone
from ocl_inductor.codegen.cost import Cost


def device(lanes: int = 8, units: int = 2) -> Any:
    """Each launch takes 4 µs more than in the calling thread, and a wait 1."""
    return SimpleNamespace(vector_width=lanes, compute_units=units, launch_s=4e-6, wait_s=1e-6)


def lasting(seconds: float) -> Cost:
    """A kernel that one core takes so long for, of arithmetic alone."""
    flops = round(seconds / seconds_alone(Cost(1, 0, 0), device()))
    return Cost(flops, 0, 0)


@pytest.mark.parametrize(
    ("seconds", "launches", "sooner"),
    [(9e-6, 1, True), (11e-6, 1, False), (33e-6, 4, True), (35e-6, 4, False)],
)
def test_half_of_it_is_what_a_second_core_saves(
    seconds: float, launches: int, sooner: bool
) -> None:
    costs = [lasting(seconds / launches)] * launches
    assert sooner_alone(costs, launches, device()) is sooner


def test_more_cores_save_more() -> None:
    costs = [lasting(9e-6)]
    assert sooner_alone(costs, 1, device(units=2))
    assert not sooner_alone(costs, 1, device(units=8))


def test_wider_vectors_take_less() -> None:
    cost = Cost(10_000, 20_000, 1000)
    assert seconds_alone(cost, device(16)) == pytest.approx(seconds_alone(cost, device(8)) / 2)


def test_memory_is_slower_than_caches() -> None:
    small, large = (seconds_alone(Cost(0, n, 0), device(16)) for n in (1 << 20, 2 << 20))
    assert large > 4 * small


def test_sizes_that_nobody_knows_yet_are_for_all_cores() -> None:
    assert not sooner_alone([Cost(0, 4 * sympy.Symbol("n"), 0)], 1, device())
