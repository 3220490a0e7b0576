"""Launches that a team does together: right numbers whatever its members do, and when there is
such a launch."""

from __future__ import annotations

import copy
import dataclasses
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from agreement import assert_same, poisoned_memory, random, two_drivers
from programs import frozen
from torch import Tensor, nn
from torch.nn import functional as F

from ocl_inductor.codegen import plan_builder
from ocl_inductor.codegen.launches.joined import MAX_PARTS
from ocl_inductor.device.select import select_device
from ocl_inductor.plan.plan import PROGRESS, Launch, Plan

each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))


class Mixed(nn.Module):
    """Kernels of one to three dimensions, templates and loops, some with fewer pieces than a team
    has members."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.expand = nn.Conv2d(24, 72, 1)
        self.norm = nn.BatchNorm2d(72)
        self.squeeze = nn.Linear(72, 8)
        self.excite = nn.Linear(8, 72)
        self.classes = nn.Linear(72, 37)

    def forward(self, x: Tensor) -> Tensor:
        x = self.depthwise(F.hardswish(self.stem(x)))
        x = F.relu(self.norm(self.expand(x)))
        weights = self.excite(F.relu(self.squeeze(x.mean((2, 3)))))
        x = x * F.hardsigmoid(weights)[:, :, None, None]
        return self.classes(F.max_pool2d(x, 2).flatten(2).mean(2)).softmax(1)


def compiled(f: Any, driver: str, **options: Any) -> Any:
    options = {"device": driver, "profile": "vector", "fallback": "error", **options}
    return torch.compile(f, backend="opencl", dynamic=False, options=options)


def teams(plan: Plan) -> list[Launch]:
    return [s for s in plan.steps if isinstance(s, Launch) and PROGRESS in s.buffers]


def with_members(monkeypatch: pytest.MonkeyPatch, members: int) -> None:
    """Teams are made as for a device with so many cores, however many it has."""
    real = plan_builder.team
    monkeypatch.setenv("OCL_INDUCTOR_CACHE", "0")
    monkeypatch.setattr(
        plan_builder,
        "team",
        lambda sources, device: real(sources, dataclasses.replace(device, compute_units=members)),
    )
    words = plan_builder.progress_words(members)
    monkeypatch.setattr(plan_builder, "progress_words", lambda _: words)
    monkeypatch.setattr(plan_builder, "fits_one_core", lambda *_: False)
    monkeypatch.setattr(plan_builder, "chainable", lambda *_: False)


@each_driver
@pytest.mark.parametrize("members", [None, 1, 3, 7])
def test_whatever_the_members(
    driver: str, members: int | None, plans: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More members than threads: some begin when all the work is done."""
    cores = select_device(driver).info.compute_units
    if members is not None:
        with_members(monkeypatch, members)
    elif cores == 1:
        pytest.skip("one core needs no team")
    model = frozen(Mixed())
    reference = copy.deepcopy(model).double()
    call = compiled(model, driver)
    with torch.no_grad(), poisoned_memory():
        for _ in range(5):
            x = random(2, 3, 99, 101)
            assert_same(call(x), reference(x.double()).float(), 1e-5, 1e-5)
    (plan,) = plans
    assert len(teams(plan)) == len(plan.steps) == 1
    assert sum(map(len, plan.parts)) > 5
    assert plan.progress_words >= 32
    (size,) = teams(plan)[0].global_size
    assert size == members if members else 1 < size <= cores


@each_driver
def test_training(driver: str, plans: list[Plan]) -> None:
    model = Mixed().train()
    reference = copy.deepcopy(model).double()
    call = compiled(model, driver)
    for _ in range(3):
        x, target = random(2, 3, 64, 64), random(2, 37)
        for m, f, dtype in ((model, call, torch.float32), (reference, reference, torch.float64)):
            m.zero_grad()
            (f(x.to(dtype)) * target.to(dtype)).sum().backward()
        for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
            assert ours.grad is not None and theirs.grad is not None
            assert_same(ours.grad, theirs.grad.float(), 2e-4, 1e-5)
    assert all(map(teams, plans))


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
@pytest.mark.parametrize("memory", ["discrete", "buffers"])
def test_memory_of_its_own(driver: str, memory: str, plans: list[Plan]) -> None:
    """What members share is in the device's memory too."""
    model = frozen(Mixed())
    reference = copy.deepcopy(model).double()
    call = compiled(model, driver, memory=memory)
    with torch.no_grad():
        for _ in range(3):
            x = random(2, 3, 65, 64)
            assert_same(call(x), reference(x.double()).float(), 1e-5, 1e-5)
    assert all(map(teams, plans))


@each_driver
def test_threads_call_one_model(driver: str) -> None:
    """Members of different calls do not meet."""
    model = frozen(Mixed())
    call = compiled(model, driver)
    call(random(1, 3, 64, 64))
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            with torch.no_grad():
                for _ in range(20):
                    x = random(1, 3, 64, 64)
                    assert_same(call(x), model(x), 1e-4, 1e-5)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


_ALONE = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
def test_on_one_core(driver: str) -> None:
    """Teams of several members whose threads share a core, or are one thread."""
    here = f"{__file__}::test_whatever_the_members"
    environment = {**os.environ, "OCL_INDUCTOR_TEST_DEVICES": driver}
    done = subprocess.run(
        [sys.executable, "-c", _ALONE, f"{here}[7-{driver}]", f"{here}[3-{driver}]"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "2 passed" in done.stdout


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
def test_long_kernels_stay_apart(driver: str, plans: list[Plan]) -> None:
    """A launch costs them nothing that one would notice."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y).relu() @ y

    x, y = random(1500, 1500), random(1500, 1500) / 1500**0.5
    expected = f(x.double(), y.double()).float()
    assert_same(compiled(f, driver)(x, y), expected, 1e-4, 1e-4)
    assert not any(map(teams, plans))


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
def test_many_parts(driver: str, plans: list[Plan]) -> None:
    """More than one program should hold."""

    def f(x: Tensor) -> Tensor:
        for _ in range(MAX_PARTS // 2 + 2):
            x = x.softmax(1).cumsum(0)
        return x

    x = random(256, 512)
    assert_same(compiled(f, driver)(x), f(x), 1e-4, 1e-4)
    assert len(plans[0].steps) == len(teams(plans[0])) == 2


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
@pytest.mark.parametrize("option", [{"chain": False}, {"profile": "simt"}])
def test_without_teams(driver: str, option: dict[str, Any], plans: list[Plan]) -> None:
    model, x = frozen(Mixed()), random(1, 3, 64, 64)
    with torch.no_grad():
        assert_same(compiled(model, driver, **option)(x), model(x), 1e-4, 1e-4)
    assert not any(map(teams, plans)) and not any(p.progress_words for p in plans)
