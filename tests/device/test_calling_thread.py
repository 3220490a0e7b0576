"""Small plans run in the calling thread: with the same results, and only where it is wanted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import compiled, poisoned_memory, random, two_drivers
from programs import frozen
from torch import nn
from torch._dynamo.utils import counters

from ocl_inductor.device import device, probe
from ocl_inductor.device.select import list_devices, select_device
from ocl_inductor.observe.profiler import profile
from ocl_inductor.runtime.build.builders import Builders
from ocl_inductor.support import child_process

each_driver = pytest.mark.parametrize("driver", two_drivers())


@pytest.fixture(params=two_drivers())
def caller(request: pytest.FixtureRequest) -> str:
    """A driver that runs kernels in the calling thread."""
    if select_device(request.param).calling_thread is None:
        pytest.skip("this driver has no way to run kernels in the calling thread")
    return str(request.param)


def _model() -> nn.Module:
    return frozen(nn.Sequential(nn.Linear(33, 65), nn.Tanh(), nn.LayerNorm(65), nn.Linear(65, 9)))


def _small_plans() -> int:
    return int(counters["opencl"]["calling_thread_plans"])


def test_two_drivers_can_do_it() -> None:
    """Else every other test here is skipped."""
    names = [d for d in list_devices() if d.short_name in ("intel", "pocl-3.0", "pocl-3.1")]
    assert all(d.calling_thread is not None for d in names)


def test_results_are_right_whatever_changes(caller: str) -> None:
    model = _model()
    with poisoned_memory():
        function = compiled(model, caller)
        kept = []
        for _ in range(6):
            x = random(7, 33)
            kept.append((function(x), model(x)))
        assert _small_plans() == 1
        with torch.no_grad():
            model[0].weight.mul_(-0.5)  # packed by a prologue
        for _ in range(3):
            x = random(7, 33)
            kept.append((function(x), model(x)))
        model[3].bias = nn.Parameter(random(9), requires_grad=False)
        x = random(7, 33)
        kept.append((function(x), model(x)))
    for result, expected in kept:
        torch.testing.assert_close(result, expected)


def test_kernels_with_many_work_groups_and_local_memory(caller: str) -> None:
    """Not only chains of one work-item."""

    def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sort(-1).values, x.cumsum(0), x.t().contiguous() * 2, x.argmax(-1)

    x = random(13, 40)
    for chain in (True, False):
        torch.compiler.reset()
        result = compiled(several, caller, chain=chain)(x)
        for a, b in zip(result, several(x), strict=True):
            torch.testing.assert_close(a, b)


def test_training_step(caller: str) -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    function = compiled(model, caller)
    for _ in range(3):
        x = random(4, 5)
        expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        found = torch.autograd.grad(function(x).square().sum(), list(model.parameters()))
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)
    assert _small_plans() == 2  # forward and backward


def test_many_middling_kernels_are_one_launch(caller: str, plans: list[Any]) -> None:
    """Each is work for several cores, but to tell them of each would take longer than all of it."""
    info = select_device(caller).info
    rows = int(18 * info.vector_width / (1 - 1 / max(info.compute_units, 2)))
    layers = [m for _ in range(8) for m in (nn.Linear(16, 16), nn.Tanh())]
    model = nn.Sequential(*layers)
    function = compiled(model, caller)
    for _ in range(4):
        x = random(rows, 16)
        expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        with poisoned_memory():
            found = torch.autograd.grad(function(x).square().sum(), list(model.parameters()))
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert _small_plans() == 2
    assert [len(plan.steps) for plan in plans] == [1, 1]


def test_large_kernels_are_for_all_cores(caller: str, plans: list[Any], unchained: None) -> None:
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(3)])
    x = random(256, 256)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model, caller)(x), model(x))
    assert _small_plans() == 0
    assert [len(plan.steps) for plan in plans] == [3]


def test_threads_call_one_model_and_several(caller: str) -> None:
    models = [_model() for _ in range(2)]
    functions = [compiled(m, caller) for m in models]
    wrong: list[BaseException] = []

    def call(number: int) -> None:
        try:
            for n in range(40):
                model, function = models[(number + n) % 2], functions[(number + n) % 2]
                x = random(7, 33)
                torch.testing.assert_close(function(x), model(x))
        except BaseException as error:
            wrong.append(error)

    for function in functions:
        function(random(7, 33))
    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_profile_sees_the_kernels(caller: str) -> None:
    model = _model()
    function = compiled(model, caller)
    x = random(7, 33)
    function(x)
    function(x)
    with profile() as found:
        torch.testing.assert_close(function(x), model(x))
    assert found.kernels
    torch.testing.assert_close(function(x.normal_()), model(x))
    assert _small_plans() == 1


def test_reduce_overhead_keeps_its_results(caller: str) -> None:
    model = _model()
    function = compiled(model, caller, mode="reduce-overhead")
    for _ in range(60):  # until a way of launching is chosen
        x = random(7, 33)
        torch.testing.assert_close(function(x), model(x))
    assert _small_plans() == 1


@each_driver
def test_setting_turns_it_off(driver: str) -> None:
    model, x = _model(), random(7, 33)
    torch.testing.assert_close(compiled(model, driver, calling_thread=False)(x), model(x))
    assert _small_plans() == 0


@each_driver
def test_what_takes_long_or_is_copied_stays_with_all_cores(driver: str) -> None:
    x = random(512, 512)
    torch.testing.assert_close(compiled(torch.sin, driver)(x), x.sin())
    model, x = _model(), random(7, 33)
    torch.testing.assert_close(compiled(model, driver, memory="discrete")(x), model(x))
    assert _small_plans() == 0


def test_driver_that_fails_the_test_is_left_alone(
    caller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = select_device(caller)
    fresh = [device.Device(chosen.cl_device, inline_device=chosen._inline_device) for _ in range(2)]
    for found in fresh:
        found._opened_inline_device = chosen._opened_inline_device
        found.library = chosen.library
    assert fresh[0].calling_thread is not None
    for question in ("calling_thread_works", "inline_device_works"):
        monkeypatch.setattr(device, question, lambda *args: False)
    assert fresh[1].calling_thread is None


def test_answers_are_remembered(
    caller: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "default_cache_dir", lambda: tmp_path)
    asked = []

    def tested(question: str, names: Any, *how: Any) -> bool:
        asked.append((names.name, *how))
        return True

    monkeypatch.setattr(probe, "_tested_in_child", tested)
    names = select_device(caller).names
    apart = ("library.so", {"A": "1"})
    for _ in range(2):
        assert probe.calling_thread_works("key", names)
        assert probe.inline_device_works("other key", names, apart)
        assert probe.inline_device_works("third key", names, apart, lambda: True)
    assert asked == [(names.name,), (names.name, "library.so", {"A": "1"})]


def test_the_test_of_an_inline_device_opens_one_driver(
    caller: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process for it, and in one that compiles for the inline device."""
    chosen = select_device(caller)
    inline = chosen.calling_thread
    assert inline is not None
    if not inline.variables:
        pytest.skip("the driver has no inline device")
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    assert probe.inline_device_works("key", inline.names, inline.child_environment)
    made = Builders(inline)
    assert made.test()
    made.end()
    assert [x.name for x in tmp_path.iterdir()] == ["probe"]  # no survey of the others


def test_inline_device_is_not_listed_and_leaves_the_environment_alone(caller: str) -> None:
    inline = select_device(caller).calling_thread
    assert inline is not None
    assert inline not in list_devices()
    assert all(d.names.name != inline.names.name for d in list_devices()) or not inline.variables
    assert not any(name in os.environ for name in inline.variables)


def test_what_the_user_says_of_a_driver_holds() -> None:
    chosen = next((d for d in list_devices() if d.short_name.startswith("pocl")), None)
    if chosen is None or chosen.calling_thread is None:
        pytest.skip("no PoCL that lists a device for the calling thread")
    program = (
        "from ocl_inductor.device.select import list_devices\n"
        f"d = next(d for d in list_devices() if d.short_name == {chosen.short_name!r})\n"
        "print('inline:', d.names.name.split('-')[0], d.calling_thread)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**child_process.environment(), "POCL_DEVICES": "pthread"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "inline: pthread None" in done.stdout, done.stderr
