"""What ``test_ocl.py`` runs in a process of its own: batch norm in training on ``ocl`` tensors.

Kernels write its running statistics where they are, so nothing is copied after a call, and the
calls after the first two take the short way.
"""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import pytest
import torch
from call_paths import watched
from torch import nn
from torch._dynamo.utils import counters

import ocl_inductor.eager  # noqa: F401
from ocl_inductor.eager import compiled
from ocl_inductor.runtime.call.executor import Executor

STEPS = 5
#: Of each, some are no multiple of what a work-group takes side by side.
CHANNELS = (1, 3, 7, 33, 130)
Short: TypeAlias = list[tuple[Executor, bool]]
LAYOUTS = ("rows", "planes", "channels_last")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> list[Executor]:
    """Of what is compiled, in order."""
    found: list[Executor] = []
    build = Executor.__init__

    def noting(self: Executor, *rest: Any, **options: Any) -> None:
        found.append(self)
        build(self, *rest, **options)

    monkeypatch.setattr(Executor, "__init__", noting)
    return found


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Short:
    """See ``watched``."""
    return watched(monkeypatch)


def assert_short(executors: list[Executor], short: Short) -> None:
    """Nothing is copied after a call, and forward and backward are known after the first one."""
    forward = executors[0]
    assert forward.plan.updates == ()
    known = [False, *(STEPS - 1) * [True]]
    went = [[found for own, found in short if own is executor] for executor in executors]
    assert went[0] == known
    assert went.count(known) >= 2  # and operators of their own, the first time they are used


def norm(layout: str, channels: int, momentum: float | None = 0.1) -> nn.Module:
    kind = nn.BatchNorm1d if layout == "rows" else nn.BatchNorm2d
    return kind(channels, momentum=momentum)


def batch(layout: str, channels: int) -> torch.Tensor:
    size = (70, channels) if layout == "rows" else (6, channels, 9, 8)
    x = torch.randn(size) * 2 + 3
    return x.contiguous(memory_format=torch.channels_last) if layout == "channels_last" else x


def trained(model: nn.Module, layout: str, channels: int, profile: str) -> None:
    """Some steps, compiled and in float64, after each of which everything is the same."""
    wide = copy.deepcopy(model).double()
    there = model.to("ocl")
    call = torch.compile(
        there, backend="opencl", options={"fallback": "error", "profile": profile, "verify": True}
    )
    for _ in range(STEPS):
        x = batch(layout, channels)
        there.zero_grad()
        wide.zero_grad()
        found, right = call(x.to("ocl")), wide(x.double())
        found.square().mean().backward()
        right.square().mean().backward()
        torch.testing.assert_close(found.cpu().double(), right, rtol=1e-4, atol=1e-4)
        for ours, theirs in zip(there.buffers(), wide.buffers(), strict=True):
            torch.testing.assert_close(ours.cpu().to(theirs.dtype), theirs, rtol=1e-5, atol=1e-6)
        for ours, theirs in zip(there.parameters(), wide.parameters(), strict=True):
            torch.testing.assert_close(ours.grad.cpu().double(), theirs.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("profile", ["vector", "simt"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_statistics_are_written_where_they_are(
    channels: int, layout: str, profile: str, executors: list[Executor], short: Short
) -> None:
    trained(norm(layout, channels), layout, channels, profile)
    plan = executors[0].plan
    assert len({root for _, root in plan.aliases} & {s.name for s in plan.inputs}) == 3
    assert_short(executors, short)


@pytest.mark.parametrize("profile", ["vector", "simt"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_means_over_all_batches(layout: str, profile: str) -> None:
    trained(norm(layout, 33, momentum=None), layout, 33, profile)


@pytest.mark.parametrize("profile", ["vector", "simt"])
def test_a_norm_that_is_used_twice(profile: str) -> None:
    """Its statistics go through two updates a step."""
    one = norm("planes", 7)
    trained(nn.Sequential(one, nn.ReLU(), one), "planes", 7, profile)


@pytest.mark.parametrize("profile", ["vector", "simt"])
def test_a_network(profile: str, executors: list[Executor], short: Short) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 33, 3), nn.BatchNorm2d(33), nn.ReLU(), nn.Conv2d(33, 5, 3), nn.BatchNorm2d(5)
    )
    trained(model, "planes", 3, profile)
    assert_short(executors, short)


def test_eagerly_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an operator has been compiled too often already. Its schema names no statistics."""
    monkeypatch.setattr(compiled, "_MOST_FORMS", 0)
    here = nn.BatchNorm2d(11).double()
    there = copy.deepcopy(here).to("ocl")
    for size in (4, 9):
        x = torch.randn(size, 11, 3, 2, dtype=torch.float64)
        torch.testing.assert_close(there(x.to("ocl")).cpu(), here(x))
    mean, _ = torch.batch_norm_update_stats(x.to("ocl"), there.running_mean, there.running_var, 0.3)
    torch.batch_norm_update_stats(x, here.running_mean, here.running_var, 0.3)
    torch.testing.assert_close(mean.cpu(), x.mean((0, 2, 3)))
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(there, name).cpu(), getattr(here, name))
    there.eval()
    here.eval()
    torch.testing.assert_close(there(x.to("ocl")).cpu(), here(x))
    assert counters["opencl"]["eager on host: aten.native_batch_norm.default"] >= 2
