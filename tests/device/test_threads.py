"""Threads that call and compile at the same time, several devices in one process, and forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from agreement import compiled as compiled_whole
from agreement import random, two_drivers
from torch import nn
from torch._dynamo.utils import counters

from ocl_inductor.device import fork
from ocl_inductor.device.select import list_devices, select_device
from ocl_inductor.errors import ForkedProcessError
from ocl_inductor.runtime.counters import count

each_driver = pytest.mark.parametrize("driver", two_drivers())

THREADS = 4


def in_threads(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """``work(number)`` in each of several threads that start together."""
    start = threading.Barrier(threads)

    def run(number: int) -> Any:
        start.wait(timeout=60)
        return work(number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # a switch wherever there can be one
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(run, range(threads)))
    finally:
        sys.setswitchinterval(interval)


def compiled(fn: Callable[..., Any], driver: str, **options: Any) -> Callable[..., Any]:
    """``fn`` compiled for threads that call it together.

    With ``fullgraph=True`` PyTorch 2.13 counts the frames of a call in one number for all threads:
    any backend, "eager" too, now and then fails with "found no compiled frames".
    """
    return compiled_whole(fn, driver, fullgraph=False, **options)


class Net(nn.Module):
    """Packs weights in a prologue, and needs scratch memory between its kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 48), nn.Linear(48, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).softmax(-1)).cumsum(0)


@each_driver
@pytest.mark.parametrize("dynamic", [False, True])
def test_threads_call_one_model(driver: str, dynamic: bool) -> None:
    net = Net()
    model = compiled(net, driver, dynamic=dynamic)
    with torch.no_grad():  # no compilation is left, which Dynamo does in one thread at a time
        for rows in (40, 47) if dynamic else (40,):
            model(random(rows, 32))

    def call(number: int) -> None:
        for turn in range(12):
            rows = 40 + number + turn if dynamic else 40
            x = random(rows, 32, seed=100 * number + turn)
            with torch.no_grad():  # grad mode belongs to the thread
                torch.testing.assert_close(model(x), net(x), rtol=1e-4, atol=1e-4)

    in_threads(call)
    assert not counters["graph_break"]


@each_driver
def test_threads_make_the_first_call_together(driver: str) -> None:
    net = Net()
    model = compiled(net, driver)

    def call(number: int) -> None:
        x = random(40, 32, seed=number)
        with torch.no_grad():
            torch.testing.assert_close(model(x), net(x), rtol=1e-4, atol=1e-4)

    in_threads(call)


def test_threads_compile_different_models_on_different_devices() -> None:
    drivers = two_drivers()

    def work(number: int) -> None:
        factor = number + 2  # another constant: another graph

        def f(x: torch.Tensor) -> torch.Tensor:
            return (x * factor).softmax(-1).sum(0)

        g = compiled(f, drivers[number % len(drivers)])
        for turn in range(3):
            x = random(9, 17, seed=100 * number + turn)
            torch.testing.assert_close(g(x), f(x), rtol=1e-4, atol=1e-4)

    in_threads(work)


@each_driver
def test_threads_train(driver: str) -> None:
    """Each thread has a model and an optimiser of its own; they share one compiled graph."""

    def work(number: int) -> None:
        torch.manual_seed(number)
        mine, eager = Net(), Net()
        eager.load_state_dict(mine.state_dict())
        model = compiled(mine, driver)
        for turn in range(3):
            x = random(40, 32, seed=100 * number + turn)
            for net, call in ((mine, model), (eager, eager)):
                net.zero_grad()
                call(x).square().mean().backward()
                with torch.no_grad():
                    for p in net.parameters():
                        p -= 0.01 * p.grad
        for p, q in zip(mine.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)

    in_threads(work, 2)


def test_devices_take_turns() -> None:
    """Intermediate results go from one device to the other."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ x) / 10

    functions = [compiled(f, driver) for driver in two_drivers()]
    x = expected = random(20, 20, seed=3)
    for turn in range(6):
        x, expected = functions[turn % len(functions)](x), f(expected)
        torch.testing.assert_close(x, expected, rtol=1e-3, atol=1e-3)


def test_handles_are_made_once() -> None:
    for device in list_devices()[:2]:
        fresh = type(device)(device.cl_device)
        found = in_threads(lambda number, fresh=fresh: (fresh.context, fresh.queue), 8)
        assert len({(id(context), id(queue)) for context, queue in found}) == 1
    found = in_threads(lambda number: select_device(two_drivers()[0]), 8)
    assert len({id(device) for device in found}) == 1


def test_counters_lose_nothing() -> None:
    in_threads(lambda number: [count("cache_hits") for _ in range(2000)])
    assert counters["opencl"]["cache_hits"] == 2000 * THREADS


def test_the_error_of_a_forked_child(monkeypatch) -> None:
    g = compiled(lambda x: x + 1, two_drivers()[0])
    g(random(3))
    monkeypatch.setattr(fork, "forked", True)
    monkeypatch.setattr(fork, "stopped", True)
    with pytest.raises(ForkedProcessError, match="spawn"):
        g(random(3))
    with pytest.raises(ForkedProcessError, match="spawn"):
        list_devices()
    monkeypatch.undo()
    x = random(3)
    torch.testing.assert_close(g(x), x + 1)


_FORKING = """
import os, signal, sys
import torch
from torch.utils.data import DataLoader, Dataset

driver = sys.argv[1]
before = os.fork()  # nothing of OpenCL is loaded yet: this child may use it
def f(x):
    return (x @ x).softmax(-1).sum(0)
g = torch.compile(f, backend="opencl", options={"device": driver})
x = torch.randn(20, 20)
signal.alarm(240)  # here and in children: a hang ends with a signal
torch.testing.assert_close(g(x), f(x), rtol=1e-4, atol=1e-4)
if before == 0:
    os._exit(0)
assert os.waitpid(before, 0)[1] == 0

class Data(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return f(torch.full((4, 4), float(i)))  # eager code in a worker

for _ in range(2):
    got = torch.cat(list(DataLoader(Data(), 2, num_workers=2, multiprocessing_context="fork")))
    want = torch.stack([f(torch.full((4, 4), float(i))) for i in range(8)])
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(g(x), f(x), rtol=1e-4, atol=1e-4)

child = os.fork()
if child == 0:
    signal.alarm(120)  # to end takes seconds: all the memory that it touches is copied
    try:
        g(x)
    except RuntimeError as error:
        if type(error).__name__ == "ForkedProcessError":
            del g
            torch.compiler.reset()  # lets go of the parent's handles
            sys.exit(7)  # as most programs end, with everything that runs at exit
    os._exit(1)
status = os.waitpid(child, 0)[1]
assert os.waitstatus_to_exitcode(status) == 7, status
torch.testing.assert_close(g(x), f(x), rtol=1e-4, atol=1e-4)
print("all is well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "driver",
    # One driver where time counts: each process imports torch, and forks three times.
    [pytest.param(d, marks=pytest.mark.slow if i else ()) for i, d in enumerate(two_drivers())],
)
def test_fork(driver: str, clean_env: dict[str, str]) -> None:
    """Before use: the child may compile. After: workers work, a compiled call is refused."""
    done = subprocess.run(
        [sys.executable, "-c", _FORKING, driver],
        env=clean_env,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "all is well" in done.stdout
