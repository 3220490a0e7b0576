"""Inputs that a graph writes: in place where nobody needs the old contents, else copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import assert_same, poisoned_memory, random, two_drivers
from torch import Tensor, nn
from torch._dynamo.utils import counters

from ocl_inductor.compile import compile_with
from ocl_inductor.plan.plan import Plan
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.parameters.parameters import Parameters

MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "discrete": {"memory": "discrete"},
    "simt": {"profile": "simt"},
}


def add(x: Tensor, y: Tensor) -> Tensor:
    return x.add_(1)


def old_value(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2
    x.add_(1)
    return z


def part(x: Tensor, y: Tensor) -> Tensor:
    v = x[1:3]
    v.mul_(3)
    return v


def swap(x: Tensor, y: Tensor) -> None:
    t = x.clone()
    x.copy_(y)
    y.copy_(t)


def each_other(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    y.mul_(x)
    return x - y


def flip(x: Tensor, y: Tensor) -> Tensor:
    x.copy_(x.flip(0))
    return x.sum()


def transpose(x: Tensor, y: Tensor) -> None:
    x.copy_(x.t().clone())


def rows(x: Tensor, y: Tensor) -> Tensor:
    """The sweep reads what a later sweep of the same kernel writes."""
    mean = x.mean(1, keepdim=True)
    x.sub_(mean)
    y.copy_(x.softmax(-1))
    return mean


def read_later(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Another kernel reads the old contents after the new ones are known."""
    old = x.clone()
    x.mul_(y)
    return (old @ y).sum(0), x.cumsum(0)


def product(x: Tensor, y: Tensor) -> None:
    x.copy_(x @ y)


def added_product(x: Tensor, y: Tensor) -> None:
    x.addmm_(y, y)


def other_dtype(x: Tensor, y: Tensor) -> Tensor:
    x.copy_(torch.ones(33, 33, dtype=torch.float64) * y)
    return y + 1


def scattered(x: Tensor, y: Tensor) -> Tensor:
    x.index_add_(0, torch.tensor([0, 3, 3]), y[:3])
    return x * 2


FUNCTIONS = (
    add, old_value, part, swap, each_other, flip, transpose, rows, read_later, product,
    added_product, other_dtype, scattered,
)  # fmt: skip


def follows(
    fn: Callable[..., Any], *given: Tensor, driver: str, mode: dict[str, Any], calls: int = 3
) -> None:
    """Results and inputs are as eager's, call after call on the same tensors."""
    theirs = [t.clone(memory_format=torch.preserve_format) for t in given]
    ours = [t.clone(memory_format=torch.preserve_format) for t in given]
    call = torch.compile(
        fn, backend="opencl", fullgraph=True, options={"device": driver, "verify": True, **mode}
    )
    with poisoned_memory():
        for _ in range(calls):
            wanted, got = fn(*theirs), call(*ours)
            assert_same([got, *ours], [wanted, *theirs], rtol=1e-4, atol=1e-5)


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


CASES = [
    (fn, mode, driver)
    if fn is each_other or (mode == "plain" and driver == two_drivers()[0])
    else slow(fn, mode, driver)
    for fn in FUNCTIONS
    for mode in MODES
    for driver in two_drivers()
]


@pytest.mark.parametrize(("fn", "mode", "driver"), CASES)
def test_inputs_that_are_written(fn: Callable[..., Any], mode: str, driver: str) -> None:
    follows(fn, random(33, 33), random(33, 33) / 6, driver=driver, mode=MODES[mode])


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("mode", [{}, {"memory": "discrete"}], ids=["plain", "discrete"])
def test_neighbours_in_one_storage(mode: dict[str, Any], driver: str) -> None:
    """Each writes between the elements of the other."""

    def fn(x: Tensor, y: Tensor) -> None:
        x.add_(y)
        y.mul_(3)

    theirs = random(7, 10)
    ours = theirs.clone()
    call = torch.compile(fn, backend="opencl", options={"device": driver, **mode})
    for _ in range(3):
        fn(theirs[:, :5], theirs[:, 5:])
        call(ours[:, :5], ours[:, 5:])
        assert_same(ours, theirs, rtol=1e-5, atol=1e-5)


def plans_of(fn: Callable[..., Any], *args: Any, driver: str) -> list[Plan]:
    """The plans that a call compiles."""
    found: list[Plan] = []
    build = Executor.__init__

    def noting(self: Executor, plan: Plan, *rest: Any) -> None:
        found.append(plan)
        build(self, plan, *rest)

    def backend(gm: Any, inputs: Any) -> Any:
        return compile_with(gm, inputs, options={"device": driver}, observe=lambda report: None)

    Executor.__init__ = noting  # type: ignore[method-assign]
    try:
        torch.compile(fn, backend=backend)(*args)
    finally:
        Executor.__init__ = build  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize(
    ("fn", "in_place"),
    [(add, 1), (old_value, 1), (each_other, 2), (added_product, 0), (flip, 0), (transpose, 0)],
)
def test_which_are_written_in_place(fn: Callable[..., Any], in_place: int) -> None:
    """Where each element is read before it is written, and nobody else reads it afterwards."""
    (plan,) = plans_of(fn, random(33, 33), random(33, 33), driver=two_drivers()[0])
    inputs = {s.name for s in plan.inputs}
    assert sum(root in inputs for _, root in plan.aliases) == in_place
    written = 2 if fn is each_other else 1
    assert len(plan.updates) == written - in_place
    assert not in_place or not any(b.where == "slot" for b in plan.buffers)


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("kind", [torch.optim.AdamW, slow(torch.optim.SGD)])
def test_an_optimiser_writes_parameters_in_place(kind: Any, driver: str) -> None:
    """No new tensors, and from the third step on the short way of calling."""
    model = nn.Sequential(*(nn.Linear(19, 19) for _ in range(6)))
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    optimiser = kind(model.parameters(), lr=0.1, foreach=True, **options)
    for p in model.parameters():
        p.grad = random(*p.shape)
    optimiser.step()  # makes the state
    (plan,) = plans_of(optimiser.step, driver=driver)
    assert not plan.updates
    assert not [b for b in plan.buffers if b.where != "kept"]
    assert len(plan.steps) <= 4


@pytest.mark.parametrize("driver", two_drivers())
def test_running_statistics(driver: str) -> None:
    """A model in training follows eager, and so does one that stopped training."""
    ours = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.BatchNorm2d(5))
    theirs = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.BatchNorm2d(5))
    theirs.load_state_dict(ours.state_dict())
    call = torch.compile(ours, backend="opencl", options={"device": driver, "fallback": "error"})
    for step in range(4):
        if step == 3:
            ours.eval()
            theirs.eval()
        x = random(4, 3, 9, 9)
        got, wanted = call(x), theirs(x)
        assert_same(got, wanted, rtol=1e-4, atol=1e-5)
        for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
            assert_same(a, b, rtol=1e-4, atol=1e-5)
        if step < 3:
            got.square().sum().backward()
    assert counters["opencl"]["fallbacks"] == 0


@pytest.mark.parametrize("driver", two_drivers("cpu"))
def test_parameters_that_change_at_each_step_take_the_short_way(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed weights are packed again; nothing else is looked at in the long way."""
    model = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 16, 3))
    call = torch.compile(model, backend="opencl", options={"device": driver})
    x = random(2, 16, 12, 12)
    long_way = []
    changed = Parameters.changed
    monkeypatch.setattr(Parameters, "changed", lambda *args: long_way.append(1) or changed(*args))
    with torch.no_grad():
        for step in range(5):
            if step == 2:
                long_way.clear()
            got = call(x)
            assert_same(got, model(x), rtol=1e-4, atol=1e-4)
            for p in model.parameters():
                p.add_(0.1 * random(*p.shape))
        assert not long_way
        # Without a trace in the version counters.
        for p in model.parameters():
            p.data.mul_(0.5)
        assert_same(call(x), model(x), rtol=1e-4, atol=1e-4)
