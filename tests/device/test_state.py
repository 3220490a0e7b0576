"""Inputs that are written, results that share memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree, assert_same, clone, compiled, poisoned_memory, random, two_drivers
from stateful_model import new_model
from torch import nn

each_driver = pytest.mark.parametrize("driver", two_drivers())


# -- inputs that are written -------------------------------------------------------------------


def _whole(x: Any, y: Any) -> Any:
    return x.add_(y), x * 2


def _part(x: Any, y: Any) -> Any:
    x[1:, ::2] = y[1:, ::2] * 3
    x[0].zero_()
    return x.sum(0)


def _through_a_view(x: Any, y: Any) -> Any:
    x.t()[1:3].add_(1)
    x.view(-1)[2:5].mul_(y.sum())
    return x + y


def _swapped(x: Any, y: Any) -> Any:
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return t


def _returned(x: Any, y: Any) -> Any:
    x.mul_(2)
    return x, x.view(-1), x[1:], y, y.t()


def _only_written(x: Any, y: Any) -> None:
    x.copy_(y.relu())


def _by_index(x: Any, y: Any) -> Any:
    x.index_add_(0, torch.tensor([1, 3, 1]), y[:3])
    x.masked_fill_(y > 0.5, -1)
    x[torch.tensor([0, 2])] = y[:2]
    return x.sum(1)


MUTATIONS = [_whole, _part, _through_a_view, _swapped, _returned, _only_written, _by_index]


@pytest.mark.parametrize("layout", ["plain", "transposed", "offset"])
@pytest.mark.parametrize("fn", MUTATIONS, ids=lambda f: f.__name__[1:])
@each_driver
def test_written_inputs(fn: Callable[..., Any], layout: str, driver: str) -> None:
    x = random(5, 7)
    if layout == "transposed":
        if fn is _through_a_view:
            pytest.skip("no flat view of it")
        x = random(7, 5).t()
        if fn is _returned:
            fn = _whole
    elif layout == "offset":
        x = random(36)[1:].view(5, 7)
    agree(fn, x, random(5, 7), device=driver)


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_inputs_that_overlap(driver: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    for first, second in ((slice(0, 5), slice(3, 8)), (slice(0, 5), slice(0, 5))):
        # Dynamo does not guard on how inputs overlap, so each way is compiled afresh.
        torch.compiler.reset()
        storage = random(12)
        ours, theirs = storage.clone(), storage.clone()
        function = compiled(fn, driver)
        actual = function(ours[first], ours[second])
        torch.testing.assert_close(actual, fn(theirs[first], theirs[second]))
        torch.testing.assert_close(ours, theirs)


@each_driver
def test_written_buffers(driver: str) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.register_buffer("mean", torch.zeros(7))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps.add_(1)
            self.mean.lerp_(x.mean(0), 0.1)
            return (x - self.mean) / self.steps

    model, other = Counter(), Counter()
    function = compiled(model, driver)
    for _ in range(4):
        x = random(5, 7)
        torch.testing.assert_close(function(x), other(x))
        torch.testing.assert_close(model.mean, other.mean)
    assert model.steps == 4


# -- results that share memory -----------------------------------------------------------------


ALIASES = {
    "input": lambda x: (x, x * 2),
    "view of input": lambda x: (x.view(-1), x.t(), x[1:, ::2], x + 1),
    "same result twice": lambda x: ((y := x + 1), y),
    "views of a result": lambda x: ((y := x + 1), y.view(-1), y[1:], y.t()),
    "only views of a result": lambda x: ((y := x + 1)[:2], y[1:, 2:]),
    "expanded": lambda x: (x.sum(0, keepdim=True).expand(5, -1), x[:1].expand(3, -1)),
    "detached": lambda x: (x.detach(), (x + 1).detach()),
    "gap": lambda x: ((x + 1)[::2], (x * 2).select(1, 3), x.sum(0)[::3]),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ALIASES)
@each_driver
def test_results_alias_as_in_eager(name: str, dynamic: bool, driver: str) -> None:
    fn = ALIASES[name]
    x = random(5, 7)
    function = compiled(fn, driver, dynamic=dynamic)
    agree(fn, x, device=driver, compiled_fn=function)
    ours, theirs = clone((x,)), clone((x,))
    actual, expected = function(*ours), fn(*theirs)
    for position in range(len(expected)):
        if any(s == 0 for s in expected[position].stride()):
            continue
        for results in (actual, expected):
            with torch.no_grad():
                results[position].add_(3)
        assert_same(actual, expected)
        assert_same(ours, theirs)


@each_driver
def test_results_of_one_call_survive_the_next(driver: str) -> None:
    def fn(x: Any) -> Any:
        return x.softmax(-1), x.sum(0), torch.linalg.svdvals(x) if False else x.exp()

    function = compiled(fn, driver)
    inputs = [random(9, 7) for _ in range(4)]
    kept = [function(x) for x in inputs]
    for x, results in zip(inputs, kept, strict=True):
        assert_same(results, fn(x))


@each_driver
def test_results_survive_their_inputs(driver: str) -> None:
    function = compiled(lambda x: (x * 2, x.view(-1)[1:]), driver)
    kept = []
    for n in range(20):
        kept.append(function(torch.full((999,), float(n))))
    for n, (double, view) in enumerate(kept):
        assert (double == 2 * n).all()
        assert (view == n).all()


@each_driver
def test_gradients_of_inputs_and_parameters(driver: str) -> None:
    model = new_model()

    def step(x: torch.Tensor) -> torch.Tensor:
        return model(x).log_softmax(-1)[:, 3].mean()

    function = compiled(step, driver)
    x = random(2, 3, 7, 5).requires_grad_()
    with poisoned_memory():
        actual = torch.autograd.grad(function(x), [x, *model.parameters()])
    expected = torch.autograd.grad(step(x), [x, *model.parameters()])
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)
