"""``Launch.flops`` and ``Launch.bytes``: exact counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from ocl_inductor.plan.plan import Launch, Plan
from ocl_inductor.runtime.call import executor


@contextmanager
def plans_made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Plan]]:
    plans: list[Plan] = []
    make = executor.Executor.__init__

    def noted(self: Any, plan: Plan, *rest: Any) -> None:
        plans.append(plan)
        make(self, plan, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(executor.Executor, "__init__", noted)
        yield plans


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[Any, Any]]]:
    """(flops, bytes) of each kernel of a function's one graph, the prologue's left out."""

    def of(function: Callable[..., Any], *inputs: Any, **options: Any) -> list[tuple[Any, Any]]:
        with plans_made(monkeypatch) as plans, torch.no_grad():
            torch.compile(function, backend="opencl", **options)(*inputs)
        (plan,) = plans
        return [(s.flops, s.bytes) for s in plan.steps if isinstance(s, Launch)]

    return of


def test_pointwise(costs: Callable[..., Any]) -> None:
    n = 1000
    assert costs(lambda a, b: a + b, torch.randn(n), torch.randn(n)) == [(n, 12 * n)]
    # A function is one operation; a selection and a comparison are none.
    assert costs(lambda a: torch.where(a > 0, a.exp(), a), torch.randn(n)) == [(n, 8 * n)]


def test_shared_parts_and_operands_count_once(costs: Callable[..., Any]) -> None:
    def square_of_sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a + b) * (a + b)

    assert costs(square_of_sum, torch.randn(10, 8), torch.randn(8)) == [(160, 4 * (80 + 8 + 80))]


def test_only_the_part_that_is_read_counts(costs: Callable[..., Any]) -> None:
    assert costs(lambda a: a[:, :10] * 2, torch.randn(100, 100)) == [(1000, 8000)]


def test_reductions(costs: Callable[..., Any]) -> None:
    # maximum, difference, exponential, sum and product of each element, and a quotient of each row
    assert costs(lambda a: a.softmax(-1), torch.randn(16, 32)) == [(5 * 512 + 16, 8 * 512)]
    assert costs(lambda a: a.sum(1), torch.randn(16, 32)) == [(512, 4 * (512 + 16))]


def test_a_gather_reads_what_it_points_to(costs: Callable[..., Any]) -> None:
    table, at = torch.randn(1000, 16), torch.arange(12)
    assert costs(lambda t, i: t[i], table, at) == [(0, 4 * 2 * 12 * 16 + 8 * 12)]


def test_matrix_products(costs: Callable[..., Any]) -> None:
    m, n, k = 20, 50, 30
    layer = torch.nn.Linear(k, n)
    product, matrices = 2 * m * n * k, 4 * (m * k + k * n + m * n)
    assert costs(lambda x: F.linear(x, layer.weight), torch.randn(m, k)) == [(product, matrices)]
    # bias and relu: two operations an element, and the bias is read
    with_epilogue = (product + 2 * m * n, matrices + 4 * n)
    assert costs(lambda x: F.relu(layer(x)), torch.randn(m, k)) == [with_epilogue]


@pytest.mark.parametrize("profile", ["vector", "simt"])
def test_convolution(costs: Callable[..., Any], profile: str) -> None:
    layer = torch.nn.Conv2d(8, 16, 3, padding=1, bias=False)
    options = {"profile": profile, "chain": False}
    found = costs(layer, torch.randn(2, 8, 10, 10), options=options)
    flops, nbytes = found[-1]
    assert flops == 2 * (2 * 10 * 10) * 16 * 8 * 9
    pixels = 12 * 12 if profile == "vector" else 10 * 10  # the vector one reads a padded copy
    assert nbytes == 4 * (2 * 8 * pixels + 2 * 16 * 100 + 16 * 8 * 9)


def test_symbolic_sizes(costs: Callable[..., Any]) -> None:
    ((flops, nbytes),) = costs(
        lambda a, b: a * b, torch.randn(7, 9), torch.randn(7, 9), dynamic=True
    )
    names = set(compile(flops, "", "eval").co_names)
    assert len(names) == 2 and names == set(compile(nbytes, "", "eval").co_names)
    sizes = dict(zip(sorted(names), (7, 9)))
    assert eval(flops, sizes) == 63 and eval(nbytes, sizes) == 12 * 63
