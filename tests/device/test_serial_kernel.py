"""Small kernels in one launch: right numbers, and when there is such a launch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import assert_same, random, two_drivers
from torch import Tensor, nn
from torch.nn import functional as F

from ocl_inductor.plan.plan import Launch, Plan


def launches(plan: Plan) -> list[str]:
    return [plan.kernels[s.kernel].name for s in plan.steps if isinstance(s, Launch)]


def compiled(f: Callable[..., Any], driver: str, **options: Any) -> Callable[..., Any]:
    return torch.compile(
        f,
        backend="opencl",
        dynamic=False,
        options={"device": driver, "profile": "vector", "fallback": "error", **options},
    )


@pytest.mark.parametrize("driver", two_drivers("cpu"))
def test_products_share_one_function(driver: str, plans: list[Plan]) -> None:
    model = nn.Sequential(*[m for _ in range(3) for m in (nn.Linear(64, 64), nn.Tanh())])
    x = random(8, 64)
    with torch.no_grad():
        assert_same(compiled(model, driver)(x), model(x), 1e-5, 1e-5)
    (plan,) = plans
    (name,) = launches(plan)  # eight rows are few where vectors are short
    assert name in ("chain_3_gemm_addmm_tanh", "chain_3_skinny_gemm_addmm_tanh")
    text = plan.kernels[plan.steps[0].kernel].source  # type: ignore[union-attr]
    assert (
        text.count(f"static void {name.removeprefix('chain_3_').removesuffix('_addmm_tanh')}") == 1
    )
    assert text.count("mem_fence") == 2


def memory_of_many_types(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    """Reductions after each other, so none fuse; slots of the arena hold one type, then another."""
    order = x.sum(1).argsort()
    y = x[order].softmax(1)
    kept = (y > y.mean(1, keepdim=True)).cumsum(1)
    z = F.layer_norm(kept.double(), (37,)).float()
    counts = torch.zeros(5, 37).index_add(0, n, z)
    return order, counts.cumsum(0), (counts.sum(0) * 3).to(torch.int16).sort().values


@pytest.mark.parametrize("driver", two_drivers("cpu"))
def test_kinds_of_kernels(driver: str, plans: list[Plan]) -> None:
    x, n = random(23, 37), torch.randint(5, (23,))
    call = compiled(memory_of_many_types, driver)
    for _ in range(2):
        assert_same(call(x, n), memory_of_many_types(x, n), 1e-4, 1e-4)
    (plan,) = plans
    chains = [name for name in launches(plan) if name.startswith("chain_")]
    assert chains and len(launches(plan)) <= 3
    assert sum(map(len, plan.parts)) > len(plan.steps)


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
def test_large_kernels_stay_apart(driver: str, plans: list[Plan]) -> None:
    """They end a chain; another may begin behind them."""

    def f(x: Tensor, big: Tensor) -> Tensor:
        for _ in range(2):
            x = x.softmax(1).cumsum(0)
        x = x + (big * x[0, 0]).sum()
        for _ in range(2):
            x = x.softmax(1).cumsum(0)
        return x

    x, big = random(8, 16), random(1 << 20)
    assert_same(compiled(f, driver)(x, big), f(x, big), 1e-4, 1e-4)
    (name,) = launches(plans[0])  # of a team, whose parts they are
    assert name.startswith("team_")
    called = re.findall(r"^ +(\w+)\(piece", plans[0].kernels[-1].source, re.MULTILINE)
    small = [part.startswith("chain_") for part in called]
    assert small[0] and small[-1] and not all(small)


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
def test_many_small_kernels(driver: str, plans: list[Plan]) -> None:
    """More than one program should hold: several chains."""

    def f(x: Tensor) -> Tensor:
        for _ in range(20):
            x = x.softmax(1).cumsum(0)
        return x

    x = random(8, 16)
    assert_same(compiled(f, driver)(x), f(x), 1e-4, 1e-4)
    names = launches(plans[0])
    assert len(names) == 2 and all(n.startswith("chain_") for n in names)


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
@pytest.mark.parametrize("option", [{"chain": False}, {"profile": "simt"}])
def test_without_chains(driver: str, option: dict[str, Any], plans: list[Plan]) -> None:
    x = random(8, 16)

    def f(x: Tensor) -> Tensor:
        return x.softmax(1).cumsum(0).softmax(1)

    assert_same(compiled(f, driver, **option)(x), f(x), 1e-4, 1e-4)
    assert len(launches(plans[0])) == 3


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
def test_sizes_that_vary(driver: str, plans: list[Plan]) -> None:
    """Where sizes are not known a chain has nothing to decide by."""

    def f(x: Tensor) -> Tensor:
        return x.softmax(1).cumsum(0).softmax(1)

    call = torch.compile(f, backend="opencl", dynamic=True, options={"device": driver})
    for rows in (8, 11):
        x = random(rows, 16)
        assert_same(call(x), f(x), 1e-4, 1e-4)
    assert len(launches(plans[0])) == 3
