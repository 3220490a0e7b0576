"""``mode="reduce-overhead"``: every way of waiting gives the same results, and one is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from programs import frozen
from torch import nn
from torch._dynamo.utils import counters

from benchmarks import overhead
from ocl_inductor.device import probe
from ocl_inductor.device.command_buffer import NotRecordedError
from ocl_inductor.device.select import select_device
from ocl_inductor.observe.profiler import profile
from ocl_inductor.runtime.call import replay
from ocl_inductor.runtime.memory import recycling

COUNTERS = tuple(replay.COUNTERS.values())

each_driver = pytest.mark.parametrize("driver", two_drivers())


def _model() -> nn.Module:
    return frozen(nn.Sequential(nn.Linear(33, 65), nn.LayerNorm(65), nn.Linear(65, 9)))


def _calls(model: nn.Module, function: Any, count: int) -> None:
    for _ in range(count):
        x = random(7, 33)
        torch.testing.assert_close(function(x), model(x))


@each_driver
@pytest.mark.parametrize("way", ["finish", "poll", "record"])
def test_each_way_gives_the_same(way: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "SAMPLES", 1)
    monkeypatch.setattr(replay.Replay, "_choose", lambda self: setattr(self, "chosen", way))
    model = _model()
    function = compiled(model, driver, mode="reduce-overhead")
    _calls(model, function, 8)
    with torch.no_grad():
        model[0].weight.mul_(-0.5)
    _calls(model, function, 4)


@each_driver
def test_a_way_is_chosen_and_counted(driver: str) -> None:
    model = _model()
    _calls(model, compiled(model, driver, mode="reduce-overhead"), replay.MOST_CALLS + 3)
    assert sum(counters["opencl"][name] for name in COUNTERS) == 1


@each_driver
def test_other_modes_measure_nothing(driver: str) -> None:
    model = _model()
    _calls(model, compiled(model, driver), 2 * replay.SAMPLES + 3)
    assert sum(counters["opencl"][name] for name in COUNTERS) == 0


# -- command buffers -----------------------------------------------------------------------


@pytest.fixture(params=two_drivers())
def recorder(request: pytest.FixtureRequest) -> str:
    """A driver that passes the test of command buffers."""
    if not replay.Recordings(select_device(request.param), ()).possible:
        pytest.skip("this driver lacks command buffers, or fails the test of them")
    return str(request.param)


class Watched:
    """How often recordings were made and run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = self.run = 0
        make, run = replay.Recording.__init__, replay.Recording.enqueue

        def counted_make(recording: Any, *args: Any) -> None:
            self.made += 1
            make(recording, *args)

        def counted_run(recording: Any) -> None:
            self.run += 1
            run(recording)

        monkeypatch.setattr(replay.Recording, "__init__", counted_make)
        monkeypatch.setattr(replay.Recording, "enqueue", counted_run)
        monkeypatch.setattr(replay.Replay, "_choose", lambda r: setattr(r, "chosen", "record"))
        monkeypatch.setattr(replay, "MOST_CALLS", 1)
        # Small results too lie where the last one was, unless it is kept: not where it suits the
        # allocator, which may go through many places in turn.
        monkeypatch.setattr(recycling, "MIN_BYTES", 0)


def test_recorded_calls_follow_what_moves(recorder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs at other addresses, in turn and anew; results that are kept; a parameter written, and
    one replaced.
    """
    watched = Watched(monkeypatch)
    model = _model()
    function = compiled(model, recorder, mode="reduce-overhead")
    fixed, other = random(7, 33), random(7, 33)

    def check(x: torch.Tensor) -> torch.Tensor:
        result = function(x)
        torch.testing.assert_close(result, model(x))
        return result

    check(fixed)
    for _ in range(8):
        function(fixed)
    assert watched.run >= 5 and watched.made < watched.run
    for _ in range(12):
        check(fixed.normal_())
        check(other.normal_())
    kept = [(check(fixed.normal_()), model(fixed)) for _ in range(24)]
    for result, expected in kept:
        torch.testing.assert_close(result, expected)
    with torch.no_grad():
        model[2].weight.mul_(-0.5)
    for _ in range(8):
        check(fixed.normal_())
    model[0].bias = nn.Parameter(random(65), requires_grad=False)
    for _ in range(8):
        check(fixed.normal_())


def test_scratch_memory_may_move(recorder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)

    def chain(x: torch.Tensor) -> torch.Tensor:
        return (x @ x).softmax(-1) @ (x @ x.t()).cumsum(0)

    function = compiled(chain, recorder, mode="reduce-overhead")
    x, wide = random(19, 19), random(130, 130)

    def check(x: torch.Tensor) -> None:
        torch.testing.assert_close(function(x.normal_()), chain(x), rtol=1e-4, atol=1e-3)

    for _ in range(8):
        function(x)
    assert watched.run >= 3
    check(x)
    check(wide)
    for _ in range(6):
        check(x)


def test_driver_that_refuses_is_left_alone(recorder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(recording: Any) -> None:
        raise NotRecordedError("no")

    monkeypatch.setattr(replay.Recording, "enqueue", refuse)
    model = _model()
    function = compiled(model, recorder, mode="reduce-overhead")
    x = random(7, 33)
    for _ in range(replay.MOST_CALLS + 3):
        torch.testing.assert_close(function(x.normal_()), model(x))
    assert counters["opencl"]["recorded_plans"] == 0
    assert sum(counters["opencl"][name] for name in COUNTERS) == 1


def test_profile_sees_the_kernels_of_a_recorded_plan(
    recorder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Watched(monkeypatch)
    model = _model()
    function = compiled(model, recorder, mode="reduce-overhead")
    x = random(7, 33)
    for _ in range(6):
        function(x)
    with profile() as found:
        torch.testing.assert_close(function(x), model(x))
    assert found.kernels
    torch.testing.assert_close(function(x.normal_()), model(x))


def test_driver_without_the_extension_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "EXTENSION", "cl_none_has_this")
    device = select_device(two_drivers()[0])
    assert not replay.Recordings(device, ()).possible


@each_driver
def test_the_test_runs_apart_and_is_remembered(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "default_cache_dir", lambda: tmp_path)
    device = select_device(driver)
    works = probe.command_buffers_work(device.info.key, device.names)
    assert works == (driver == "intel")  # PoCL 3.1 replays with arguments that were set later

    def never(*args: Any) -> bool:
        raise AssertionError("asked again")

    monkeypatch.setattr(probe, "_tested_in_child", never)
    assert probe.command_buffers_work(device.info.key, device.names) is works
    assert not probe.command_buffers_work("another driver", device.names)


@each_driver
def test_a_driver_that_fails_is_not_used(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "command_buffers_work", lambda key, names: False)
    watched = Watched(monkeypatch)
    model = _model()
    function = compiled(model, driver, mode="reduce-overhead")
    x = random(7, 33)
    for _ in range(6):
        torch.testing.assert_close(function(x), model(x))
    assert watched.made == 0


def test_overhead_tool() -> None:
    """`python -m benchmarks.overhead` runs; its numbers are for reading."""
    kernels, times = overhead.measure(two_drivers()[0], layers=1, mode="default", rounds=20)
    assert kernels == 1 and len(times) == 4 and times[0] > 0
