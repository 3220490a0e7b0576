"""Calls that pass by AOTAutograd's wrappers, and those that must not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers

from ocl_inductor.capture import autograd
from ocl_inductor.compile import opencl_backend

DRIVER = two_drivers()[0]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.compiler.reset()


@pytest.fixture
def wrapped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts calls that go through AOTAutograd's wrappers."""
    calls: list[int] = []
    real = autograd.without_wrappers

    def counting(function: Callable[..., Any], *others: Any) -> Callable[..., Any]:
        def count(*args: Any) -> Any:
            calls.append(len(args))
            return function(*args)

        return real(count, *others)

    monkeypatch.setattr(autograd, "without_wrappers", counting)
    return calls


def equal(ours: Any, expected: Any) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_plain_model_passes_by_them(wrapped: list[int]) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 8))
    run = compiled(model, DRIVER)
    for _ in range(4):
        x = random(5, 20)
        equal(run(x), model(x))
    assert len(wrapped) == 1, "the first call alone"
    model[0].weight.mul_(0.5)
    equal(run(x), model(x))
    with torch.inference_mode():
        equal(run(x), model(x))


@torch.no_grad()
def test_several_results_each_new(wrapped: list[int]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin(), x.softmax(-1).transpose(0, 1)

    run = compiled(function, DRIVER)
    for _ in range(3):
        x = random(7, 9)
        equal(run(x), function(x))
    assert len(wrapped) == 1


def _writes(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x + 1


def _shares(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 3
    return y, y[1:]


def _twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 3
    return y, y


NEED_THEM: Sequence[Callable[[torch.Tensor], Any]] = [
    _writes,
    _shares,
    _twice,
    lambda x: (x[1:], x.cos()),
    lambda x: (x, x.cos()),
]


@torch.no_grad()
@pytest.mark.parametrize("function", NEED_THEM, ids=["writes", "shares", "twice", "view", "input"])
def test_who_needs_them(function: Callable[[torch.Tensor], Any]) -> None:
    run = compiled(function, DRIVER)
    for _ in range(3):
        x = random(6, 6)
        y = x.clone()
        ours, expected = run(x), function(y)
        equal(ours, expected)
        equal(x, y)
        if isinstance(expected, tuple):
            addresses = [t.untyped_storage().data_ptr() for t in (x, *ours)]
            shared = [t.untyped_storage().data_ptr() for t in (y, *expected)]
            same = [[a == b for b in addresses] for a in addresses]
            assert same == [[a == b for b in shared] for a in shared], "who shares memory"


def test_gradients_on(wrapped: list[int]) -> None:
    """The wrapper turns them off, so it is called."""
    run = compiled(lambda x: x.exp() + 1, DRIVER)
    for _ in range(3):
        x = random(4, 5)
        found = run(x)
        equal(found, x.exp() + 1)
        assert not found.requires_grad
    assert len(wrapped) == 3
    weight = random(5).requires_grad_()
    train = compiled(lambda x: (x * weight).sum(), DRIVER)
    for _ in range(3):
        (gradient,) = torch.autograd.grad(train(x), weight)
        equal(gradient, x.sum(0))
    assert len(wrapped) == 6


@torch.no_grad()
def test_any_size(wrapped: list[int]) -> None:
    run = compiled(lambda x: x.sin().sum(-1), DRIVER, dynamic=True)
    for n in (4, 7, 9):
        x = random(n, 5)
        equal(run(x), x.sin().sum(-1))
    assert len(wrapped) == 3


@torch.no_grad()
def test_a_plan_from_the_cache(
    wrapped: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    x = random(4, 5)
    for _ in range(2):
        torch.compiler.reset()
        wrapped.clear()
        run = compiled(lambda x: x.exp().cumsum(-1), DRIVER)
        for _ in range(3):
            equal(run(x), x.exp().cumsum(-1))
        assert len(wrapped) == 1


@torch.no_grad()
def test_a_graph_with_results_that_are_no_tensors() -> None:
    """What Dynamo does not make, but whoever calls the backend with a graph of their own may."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.sin, (x,)), None))
    value = random(4, 5)
    run = opencl_backend(torch.fx.GraphModule({}, graph), [value], options={"device": DRIVER})
    for _ in range(2):
        found, nothing = run(value)
        equal(found, value.sin())
        assert nothing is None
