"""``mode="reduce-overhead"``: every way of waiting gives the same results, and one is chosen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from programs import frozen
from torch import nn
from torch._dynamo.utils import counters

from ocl_inductor.runtime import replay

each_driver = pytest.mark.parametrize("driver", two_drivers())


def _model() -> nn.Module:
    return frozen(nn.Sequential(nn.Linear(33, 65), nn.LayerNorm(65), nn.Linear(65, 9)))


def _calls(model: nn.Module, function: Any, count: int) -> None:
    for _ in range(count):
        x = random(7, 33)
        torch.testing.assert_close(function(x), model(x))


@each_driver
@pytest.mark.parametrize("way", ["finish", "poll"])
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
    _calls(model, compiled(model, driver, mode="reduce-overhead"), 2 * replay.SAMPLES + 3)
    assert counters["opencl"]["polled_plans"] + counters["opencl"]["finished_plans"] == 1


@each_driver
def test_other_modes_measure_nothing(driver: str) -> None:
    model = _model()
    _calls(model, compiled(model, driver), 2 * replay.SAMPLES + 3)
    assert counters["opencl"]["polled_plans"] + counters["opencl"]["finished_plans"] == 0
