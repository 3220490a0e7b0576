"""A Python number that changes between calls: no call gets the plan of another's number."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import random
from changing_numbers import GROUPS, Y, check, program
from plan_cache import DRIVER, Cache
from torch._dynamo.utils import counters

#: From the second on, Dynamo takes the number for one that changes.
NUMBERS = (0.5, 1.25, 3.0, 0.75)
#: The next process has them in another order, and still finds the plan of each.
AGAIN = (0.5, 3.0, 1.25)

_CHILD = """
import sys
from changing_numbers import GROUPS, check, program
driver, folder, *groups = sys.argv[1:]
for group in groups:
    run = program(GROUPS[group])
    found = check(run, (0.5, 3.0, 1.25), device=driver, cache_dir=folder)
    assert found == (3, 0), (group, found)
"""


@pytest.mark.parametrize("group", GROUPS)
def test_operators(group: str, cache: Cache) -> None:
    options = {"device": DRIVER, "cache_dir": str(cache.folder)}
    hits, misses = check(program(GROUPS[group]), NUMBERS, **options)
    # Norms of 2.11 are more than one graph for Dynamo, whatever the backend.
    graphs = misses // len(NUMBERS) if counters["graph_break"] else 1
    assert (hits, misses) == (0, graphs * len(NUMBERS))
    assert check(program(GROUPS[group]), AGAIN, **options) == (graphs * len(AGAIN), 0)


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param(["creation", "indexing", "products"], id="some"),
        pytest.param(list(GROUPS), marks=pytest.mark.slow, id="all"),
    ],
)
def test_in_the_next_process(groups: list[str], cache: Cache, clean_env: dict[str, str]) -> None:
    for group in groups:
        check(program(GROUPS[group]), NUMBERS, device=DRIVER, cache_dir=str(cache.folder))
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, DRIVER, str(cache.folder), *groups],
        env={**clean_env, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "group",
    ["activations", *(pytest.param(g, marks=pytest.mark.slow) for g in ("norms", "losses"))],
)
def test_in_training(group: str, cache: Cache) -> None:
    options = {"device": DRIVER, "cache_dir": str(cache.folder)}
    run = program(GROUPS[group])
    check(run, NUMBERS, train=True, **options)
    hits, misses = check(run, AGAIN, train=True, **options)
    assert hits and not misses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, found in GROUPS.items() for name in found]
)
def test_each_alone(group: str, name: str, cache: Cache) -> None:
    """Where a guard for one operator would hide that another's is missing."""
    options = {"device": DRIVER, "cache_dir": str(cache.folder)}
    for run in (GROUPS[group][name], program({name: GROUPS[group][name]})):
        check(run, NUMBERS, **options)
        check(run, AGAIN, **options)


def test_number_that_stays_a_tensor_needs_one_plan(cache: Cache) -> None:
    """A kept plan is for every number then, as it was for the process that made it."""

    def f(x: torch.Tensor, a: float) -> torch.Tensor:
        return (x * a + a).sub(a / 2).relu()

    options = {"device": DRIVER, "cache_dir": str(cache.folder)}
    assert check(f, NUMBERS, **options) == (0, 2)
    assert check(f, (0.5, 3.0, 7.0, 8.0, 0.25), **options) == (2, 0)


def test_guard_that_several_numbers_satisfy(cache: Cache) -> None:
    def f(x: torch.Tensor, a: float) -> torch.Tensor:
        return x * a if a > 1 else x + a

    options = {"device": DRIVER, "cache_dir": str(cache.folder)}
    numbers = (0.5, 1.25, 3.0, 0.75, 0.25)
    first = check(f, numbers, **options)
    assert first == (0, 3)
    assert check(f, numbers, **options) == (3, 0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, t: torch.add(x, Y, alpha=t),
        F.elu,
        lambda x, t: torch.linalg.vector_norm(x, t) * x,
    ],
    ids=["alpha", "elu", "norm"],
)
@pytest.mark.parametrize("nan_beside", [False, True])
def test_tensor_whose_number_is_taken(
    f: Callable[..., Any], nan_beside: bool, cache: Cache
) -> None:
    """Its number is symbolic for the compiler, too, unless it is nan: then there is none."""

    def run(x: torch.Tensor, other: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return f(x, t) + other.nan_to_num(7.0)

    x = random(4, 4)
    other = torch.tensor(float("nan") if nan_beside else 2.0, dtype=torch.float64)
    for number in NUMBERS:
        t = torch.tensor(number, dtype=torch.float64)
        assert cache.same(run, x, other, t) == "miss"
        assert cache.same(run, x, other, t) == "hit"
    assert counters["opencl"]["plan_bypasses"] == 0
