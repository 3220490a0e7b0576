"""The generated function that calls a small plan: when it runs, and when it must not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from agreement import compiled, poisoned_memory, random, two_drivers
from call_paths import watched
from driver_calls import driver_calls
from torch import Tensor, nn
from torch._dynamo.utils import counters

import ocl_inductor
from ocl_inductor.errors import NO_CPU_MEMORY
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.memory.recycling import Recycler
from ocl_inductor.runtime.pressure import release_idle
from ocl_inductor.runtime.stream import CommandStream

DRIVER = two_drivers()[0]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.compiler.reset()


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each call that binds everything."""
    calls: list[int] = []
    real = Executor.bind

    def bind(self: Executor, stream: CommandStream, inputs: list[Any], arena: Any) -> Any:
        calls.append(len(inputs))
        return real(self, stream, inputs, arena)

    monkeypatch.setattr(Executor, "bind", bind)
    return calls


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh())


def same(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def make_known(run: Callable[..., object], x: Tensor, general: list[int]) -> None:
    """Call until only the passed tensors are looked at, and forget the calls."""
    for _ in range(3):
        run(x)
    general.clear()


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
    """In place, through .data, through new memory, and another model's."""
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
    model[0].weight.mul_(0.5)  # seen by its version: the function itself packs it anew
    check(model, 0)
    model[2].weight.data.mul_(0.5)  # seen by its words
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
    make_known(run, x, general)
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
def test_scratch_memory_that_was_freed(general: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is bound anew, and nothing else is."""
    pointed: list[object] = []
    point = Executor.point

    def noted(self: Executor, arena: Any) -> None:
        pointed.append(arena)
        point(self, arena)

    monkeypatch.setattr(Executor, "point", noted)

    def function(x: Tensor) -> Tensor:
        return (x @ x).softmax(-1) @ (x @ x.t()).cumsum(0)

    run = compiled(function, DRIVER)
    x = random(70, 70)
    for _ in range(3):
        run(x)
    release_idle()
    general.clear()
    pointed.clear()
    for _ in range(2):
        torch.testing.assert_close(run(x), function(x), rtol=1e-4, atol=1e-3)
    assert not general and len(pointed) == 1


@torch.no_grad()
def test_a_profile_sees_its_kernels(general: list[int]) -> None:
    """And those of the usual call, with nothing bound anew."""
    model = layers()
    run = compiled(model, DRIVER)
    x = random(5, 20)
    make_known(run, x, general)
    with ocl_inductor.profile() as profile:
        for _ in range(2):
            same(run(x), model(x))
    assert len(list(profile._spans("kernel"))) >= 2
    same(run(x), model(x))
    assert not general


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


@torch.no_grad()
def test_a_result_that_finds_no_memory_at_first(
    monkeypatch: pytest.MonkeyPatch, general: list[int]
) -> None:
    """Idle memory is freed, and the call is repeated, which binds everything."""

    def short(self: Recycler) -> Tensor:
        if refusals:
            raise RuntimeError(f"DefaultCPUAllocator: {refusals.pop()}: {NO_CPU_MEMORY}")
        return real(self)

    real, refusals = Recycler.make, list[int]()
    monkeypatch.setattr(Recycler, "make", short)
    model = layers()
    run = compiled(model, DRIVER)
    x = random(5, 20)
    make_known(run, x, general)
    before = counters["opencl"]["memory_retries"]
    refusals.append(1)
    same(run(x), model(x))
    assert counters["opencl"]["memory_retries"] == before + 1 and len(general) == 1
    refusals.extend([2, 3])
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
        run(x)
    same(run(x), model(x))


@pytest.mark.parametrize("driver", two_drivers())
def test_training(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, with results that are inputs, views of them, and constants; and a
    profile in between."""
    went = watched(monkeypatch)

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = (x @ w).tanh()
        return y, x.t(), y.sum() + torch.arange(3.0)

    run = compiled(function, driver)
    w, v = (torch.nn.Parameter(t) for t in [random(20, 20)] for _ in range(2))
    for n in range(6):
        x = random(5, 20)
        with ocl_inductor.profile() if n == 4 else nullcontext() as profile:
            ours, expected = run(x, w), function(x, v)
            for a, b in zip(ours, expected, strict=True):
                same(a, b)
            (ours[0].sum() + ours[2].sum()).backward()
            (expected[0].sum() + expected[2].sum()).backward()
        assert w.grad is not None and v.grad is not None
        same(w.grad, v.grad)
        w.grad = v.grad = None
        assert profile is None or len(profile.calls) == 2
        with torch.no_grad():
            w.mul_(0.9)
            v.mul_(0.9)
    assert [known for _, known in went] == [False, False, *10 * [True]]


@torch.no_grad()
def test_every_call_launches_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that binds everything, the usual one, and one of which a profile is taken."""
    went = watched(monkeypatch)
    with driver_calls() as found:
        run = compiled(lambda x: x.cumsum(0).softmax(0).cumsum(0), DRIVER)
        x = random(3000)
        launches = []
        for n in range(4):
            found.clear()
            with ocl_inductor.profile() if n == 3 else nullcontext():
                run(x)
            launches.append(found.count("launch"))
    assert launches[0] > 0 and len(set(launches)) == 1
    assert [known for _, known in went] == [False, True, True, True]
