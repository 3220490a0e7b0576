"""How often a call asks the driver for something: each time takes microseconds on a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from driver_calls import driver_calls
from torch import nn

from ocl_inductor.device.select import select_device

each_driver = pytest.mark.parametrize("driver", two_drivers())


@pytest.fixture
def staged(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device as if large transfers were quicker through pinned memory."""
    _with_pinned_memory(True, driver, monkeypatch)


@pytest.fixture
def direct(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device as if they were not."""
    _with_pinned_memory(False, driver, monkeypatch)


def _with_pinned_memory(wanted: bool, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = select_device(driver)
    torch.compiler.reset()
    info = dataclasses.replace(device.info, pinned_staging=wanted)
    monkeypatch.setitem(vars(device), "_info", info)


def calls_of(function: Callable[..., Any], *shape: int) -> str:
    """What the driver is asked for in a later call with a new input."""
    for _ in range(2):
        function(random(*shape))
    x = random(*shape)
    with driver_calls() as found:
        function(x)
    return " ".join(found)


@each_driver
def test_one_small_kernel(driver: str) -> None:
    function = compiled(lambda x: x * 2 + 1, driver, memory="discrete")
    assert calls_of(function, 1000) == "write launch read!"


@each_driver
def test_one_small_kernel_of_symbolic_size(driver: str) -> None:
    function = compiled(lambda x: x * 2 + 1, driver, memory="discrete", dynamic=True)
    function(random(7))
    assert calls_of(function, 1000) == "write set_arg launch read!"


@each_driver
@pytest.mark.parametrize("pinned", [False, True])
def test_small_tensors_travel_together(
    driver: str, pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_pinned_memory(pinned, driver, monkeypatch)
    function = compiled(lambda x: (x * 2 + 1, x - 1, x.exp()), driver, memory="discrete")
    assert calls_of(function, 1000) == "write launch read!"
    function = compiled(lambda x, y: x.sum(0) * y, driver, memory="discrete")
    assert calls_of(lambda x: function(x, x[0].clone()), 9, 100) == "write launch read!"


@each_driver
def test_small_results_of_symbolic_size(driver: str, staged: None) -> None:
    function = compiled(
        lambda x: (x * 2 + 1, x - 1, x.exp()), driver, memory="discrete", dynamic=True
    )
    function(random(7))
    calls = "write set_arg launch read read read!"
    assert calls_of(function, 1000) == calls


@each_driver
def test_members_that_stay_at_home_part_a_bundle(driver: str, staged: None) -> None:
    model = nn.Sequential(nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 9)).requires_grad_(False)
    function = compiled(model, driver, memory="discrete")
    for _ in range(3):  # the first time that some are written, all count as written
        with torch.no_grad():
            model[0].weight.add_(1)
            model[2].weight.mul_(2)
        x = random(5, 9)
        with driver_calls() as found:
            result = function(x)
        torch.testing.assert_close(result, model(x))
    assert [call for call in found if call != "launch"] == ["write", "write", "write", "read!"]


@each_driver
def test_a_chain_of_small_kernels(driver: str, unchained: None) -> None:
    function = compiled(lambda x: x.cumsum(0).softmax(0).cumsum(0), driver, memory="discrete")
    calls = calls_of(function, 3000).split()
    assert set(calls[1:-1]) == {"launch"}
    assert (calls[0], calls[-1]) == ("write", "read!")


@each_driver
def test_a_large_kernel(driver: str, direct: None) -> None:
    function = compiled(lambda x: x * 2 + 1, driver, memory="discrete")
    assert calls_of(function, 100_000) == "write launch read finish!"


@each_driver
def test_a_large_kernel_with_pinned_memory(driver: str, staged: None) -> None:
    function = compiled(lambda x: x * 2 + 1, driver, memory="discrete")
    # Two parts: the first travels while the second is copied.
    up, home = "write flush write", "read flush read flush wait! wait!"
    assert calls_of(function, 200_000) == f"{up} launch {home}"


def _late_input(driver: str) -> Callable[[torch.Tensor], Any]:
    function = compiled(
        lambda a, b: ((a.cumsum(0) * 2).softmax(0) + b).argmax(0), driver, memory="discrete"
    )
    return lambda x: function(x[0].contiguous(), x[1].contiguous())


@each_driver
def test_an_input_of_a_later_kernel(driver: str, direct: None, unchained: None) -> None:
    """It travels on a queue of its own, for which the kernel waits, and nobody else."""
    calls = calls_of(_late_input(driver), 2, 100_000).split()
    assert calls[:2] == ["write", "launch"] and calls[-1] == "read!"
    (launch,) = (n for n, name in enumerate(calls) if name == "+launch")
    assert calls[launch - 2 : launch] == ["write", "flush"]
    assert set(calls[2 : launch - 2] + calls[launch + 1 : -1]) <= {"launch"}


@each_driver
def test_parameters_cost_nothing(driver: str) -> None:
    model = nn.Sequential(nn.Linear(65, 129), nn.ReLU(), nn.Linear(129, 9)).requires_grad_(False)
    function = compiled(model, driver, memory="discrete")
    calls = calls_of(function, 5, 65).split()
    assert set(calls[1:-1]) == {"launch"}
    assert (calls[0], calls[-1]) == ("write", "read!")


@each_driver
def test_a_training_step(driver: str, unchained: None) -> None:
    """Everything is where it was at the last step."""
    model = nn.Sequential(nn.Linear(33, 17), nn.GELU(), nn.LayerNorm(17), nn.Linear(17, 9))
    function = compiled(model, driver, memory="discrete")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = random(65, 33)

    def step() -> None:
        optimizer.zero_grad()
        (function(x) ** 2).mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    with driver_calls() as found:
        step()
    assert set(found) == {"write", "launch", "read!"}
    # Forward: the parameters with the input; the result. Backward: its gradient; theirs.
    assert (found.count("write"), found.count("read!")) == (2, 2)
