"""Plans that begin with a host call that reads nothing, the seed of their random numbers.

Calls take the short path all the same, and each draws anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pytest
import torch
import torch.nn.functional as F
from agreement import compiled, poisoned_memory, random, two_drivers
from call_paths import watched
from torch import nn
from torch._dynamo.utils import counters

from ocl_inductor import profile
from ocl_inductor.operators.random_numbers import ops
from ocl_inductor.plan.plan import HostCall, Plan
from ocl_inductor.runtime.call import replay
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.call.fast_path import draws_of

ROWS, WIDTH, LAYERS, P = 256, 512, 4, 0.3

Went: TypeAlias = list[tuple[Executor, bool]]

each_driver = pytest.mark.parametrize("driver", two_drivers())


@pytest.fixture(autouse=True)
def _poisoned() -> Iterator[None]:
    torch.compiler.reset()
    with poisoned_memory():
        yield


@pytest.fixture
def fast_path(monkeypatch: pytest.MonkeyPatch) -> Went:
    """See ``watched``."""
    return watched(monkeypatch)


def mask(seed: int, stream: int) -> torch.Tensor:
    torch.manual_seed(seed)
    drawn = ops.draw_seed("forward")
    return ops.random(drawn, stream, [ROWS, WIDTH], "uniform", torch.float32) >= P


def expected(weights: list[torch.Tensor], x: torch.Tensor, seed: int) -> torch.Tensor:
    for n, weight in enumerate(weights):
        x = F.gelu(x @ weight.T) * mask(seed, n) / (1 - P)
    return x


@each_driver
def test_training_step(driver: str, fast_path: Went) -> None:
    model = nn.Sequential(
        *(
            m
            for _ in range(LAYERS)
            for m in (nn.Linear(WIDTH, WIDTH, bias=False), nn.GELU(), nn.Dropout(P))
        )
    )
    call = compiled(model, driver)
    for seed in range(5):
        x, grad = random(ROWS, WIDTH), random(ROWS, WIDTH)
        model.zero_grad(set_to_none=True)
        torch.manual_seed(seed)
        y = call(x)
        y.backward(grad)
        wide = [p.detach().double().requires_grad_() for p in model.parameters()]
        right = expected(wide, x.double(), seed)
        right.backward(grad.double())
        torch.testing.assert_close(y.double(), right, rtol=1e-4, atol=1e-5)
        for got, weight in zip(model.parameters(), wide, strict=True):
            assert got.grad is not None and weight.grad is not None
            torch.testing.assert_close(got.grad.double(), weight.grad, rtol=1e-3, atol=1e-4)
    assert [known for _, known in fast_path] == [False, False] + 8 * [True]  # forward and backward
    assert counters["opencl"]["bytes_in_saved_memory"] > 0
    assert counters["opencl"]["fallbacks"] == 0


def noisy(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (x + torch.rand_like(x)).softmax(-1), x.sum(0) + torch.randn_like(x[0])


@each_driver
@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_seed_in_scratch_memory(
    driver: str, mode: str | None, plans: list[Plan], fast_path: Went
) -> None:
    call = compiled(noisy, driver, mode=mode) if mode else compiled(noisy, driver)
    x = random(40, 50)

    def at(seed: int) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(seed)
        return tuple(y.clone() for y in call(x))

    first = at(0)
    assert all(y.isfinite().all() for y in first)
    for seed in range(1, replay.MOST_CALLS + 6):
        other, again = at(seed), at(0)
        assert all(map(torch.equal, again, first)), seed
        assert not any(map(torch.equal, other, first)), seed
    (plan,) = plans
    (draw,) = draws_of(plan)
    assert {b.name: b.where for b in plan.buffers}[draw.results] == "slot"
    went = [known for _, known in fast_path]
    assert went[0] is False and all(went[1:])


@each_driver
def test_profile_sees_the_draw(driver: str) -> None:
    call = compiled(noisy, driver)
    x = random(40, 50)
    for _ in range(2):
        call(x)
    with profile() as result:
        call(x)
    assert sum(h.calls for h in result.host_calls) == 1


def test_what_is_a_draw(plans: list[Plan]) -> None:
    """Not what reads a tensor, nor what comes after a kernel."""

    def many(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3) + torch.linalg.eigvalsh(x.diag())

    driver = two_drivers()[0]
    compiled(many, driver)(random(3))
    (plan,) = plans
    calls = [s for s in plan.steps if isinstance(s, HostCall)]
    assert len(calls) == 2 and len(draws_of(plan)) == 1
