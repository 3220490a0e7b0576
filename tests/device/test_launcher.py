"""The generated function that calls a small plan: when it runs, and when it must not."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from agreement import compiled, poisoned_memory, random, two_drivers
from torch import Tensor, nn

import ocl_inductor
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.memory.recycling import Recycler
from ocl_inductor.runtime.pressure import release_idle

DRIVER = two_drivers()[0]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.compiler.reset()


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each call that takes the general path."""
    calls: list[int] = []
    real = Executor.run

    def run(self: Executor, inputs: list[Any]) -> tuple[Any, ...]:
        calls.append(len(inputs))
        return real(self, inputs)

    monkeypatch.setattr(Executor, "run", run)
    return calls


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh())


def same(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("driver", two_drivers())
@torch.no_grad()
def test_the_usual_call_takes_it(driver: str, general: list[int]) -> None:
    model = layers()
    run = compiled(model, driver)
    with poisoned_memory():
        for _ in range(3):
            x = random(5, 20)
            same(run(x), model(x))
        general.clear()
        kept = []
        for _ in range(4):
            x = random(5, 20)
            kept.append((run(x), model(x)))
        for ours, expected in kept:  # each call's result is its own
            same(ours, expected)
    assert not general


@torch.no_grad()
def test_changed_parameters(general: list[int]) -> None:
    """In place, through .data, through new memory, and another model's: one general call each."""
    model, other = layers(), layers()
    run = torch.compile(
        lambda m, x: m(x), backend="opencl", dynamic=False, options={"device": DRIVER}
    )
    x = random(5, 20)

    def check(m: nn.Sequential, times: int) -> None:
        general.clear()
        for _ in range(3):
            same(run(m, x), m(x))
        assert len(general) == times

    for _ in range(3):
        run(model, x)
    check(model, 0)
    model[0].weight.mul_(0.5)
    check(model, 1)
    model[2].weight.data.mul_(0.5)  # seen by its words: the function itself packs it anew
    check(model, 0)
    model[2].weight.data = torch.randn(16, 32)
    check(model, 1)
    model[0].bias.fill_(0.25)  # kernels read it where it is
    check(model, 0)
    model[0].weight = nn.Parameter(torch.randn(32, 20))
    general.clear()
    same(run(model, x), model(x))
    same(run(other, x), other(x))
    same(run(model, x), model(x))
    assert general


@torch.no_grad()
def test_other_inputs(general: list[int]) -> None:
    """What Dynamo lets through, but kernels do not expect."""
    model = layers()
    run = compiled(model, DRIVER)
    x = random(5, 20)
    for _ in range(3):
        run(x)
    general.clear()
    negative = torch._neg_view(x)
    same(run(negative), model(-x))
    same(run(x.t().contiguous().t()), model(x))
    assert general
    general.clear()
    for _ in range(3):
        same(run(x), model(x))
    assert len(general) <= 1


@torch.no_grad()
def test_results_that_are_views(general: list[int]) -> None:
    model = layers()

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = model(x)
        return y.softmax(-1).transpose(0, 1), y.exp()

    run = compiled(function, DRIVER)
    for n in range(4):
        x = random(7, 20)
        for ours, expected in zip(run(x), function(x), strict=True):
            same(ours, expected)
            assert ours.stride() == expected.stride()
        if n == 2:
            general.clear()
    assert not general


@torch.no_grad()
def test_scratch_memory_that_was_freed(general: list[int]) -> None:
    model = layers()
    run = compiled(model, DRIVER)
    x = random(5, 20)
    for _ in range(3):
        run(x)
    release_idle()
    general.clear()
    same(run(x), model(x))
    assert len(general) == 1
    same(run(x), model(x))
    assert len(general) == 1


@torch.no_grad()
def test_a_profile_sees_its_kernels() -> None:
    model = layers()
    run = compiled(model, DRIVER)
    x = random(5, 20)
    for _ in range(3):
        run(x)
    with ocl_inductor.profile() as profile:
        for _ in range(2):
            same(run(x), model(x))
    assert len(list(profile._spans("kernel"))) >= 2
    same(run(x), model(x))


@torch.no_grad()
def test_after_a_failure(monkeypatch: pytest.MonkeyPatch, general: list[int]) -> None:
    """No memory for a result: it is said, the lock is free again, and the next call is right."""
    model = layers()
    run = compiled(model, DRIVER)
    x = random(5, 20)

    def fail(self: Recycler) -> Tensor:
        if failing:
            raise RuntimeError("no memory today")
        return real(self)

    real, failing = Recycler.make, False
    monkeypatch.setattr(Recycler, "make", fail)
    for _ in range(3):
        run(x)
    failing = True
    with pytest.raises(RuntimeError, match="no memory today"):
        run(x)
    failing = False
    general.clear()
    same(run(x), model(x))
    assert len(general) == 1


@torch.no_grad()
def test_threads_with_parameters_of_their_own() -> None:
    """One plan, two models in turn: what one thread has bound is not what the other one needs."""
    models = [layers(), layers()]
    run = torch.compile(
        lambda m, x: m(x), backend="opencl", dynamic=False, options={"device": DRIVER}
    )
    for model in models:
        run(model, random(5, 20))
    errors: list[Exception] = []

    def work(model: nn.Sequential) -> None:
        try:
            with torch.no_grad():
                for _ in range(200):
                    x = random(5, 20)
                    same(run(model, x), model(x))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(m,)) for m in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
