"""The process stays small when each call gets tensors that lie elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest
from agreement import two_drivers

from ocl_inductor.runtime.memory import heap
from ocl_inductor.runtime.memory.argument import Argument

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system shows no such sizes")

#: Prints, for each size, how many times the input's size the process grew in 40 calls.
_GROWTH = """
import sys
from pathlib import Path

import torch

MIB = 1 << 20


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def growth(nbytes, training):
    function = (lambda x: (x.sin() * x).exp()) if training else (lambda x: x + 1)
    compiled = torch.compile(function, backend="opencl", dynamic=False, options=OPTIONS)
    kept = None
    for n in range(42):
        if n == 2:
            before = resident()
        x = torch.rand(nbytes // 4, requires_grad=training)
        y = compiled(x)
        if training:
            y.sum().backward()
        kept = y  # until the next call is over
    return (resident() - before) / nbytes


OPTIONS = {"device": sys.argv[1]}
for mib, training in ((2, False), (8, True)):
    print(growth(mib * MIB, training))
"""


@pytest.mark.parametrize("driver", two_drivers())
def test_fresh_inputs_do_not_make_the_process_grow(driver: str) -> None:
    """With a window kept for each place it grew by 65 to 140 times the input's size."""
    done = subprocess.run(
        [sys.executable, "-c", _GROWTH, driver], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    grown = [float(line) for line in done.stdout.split()]
    assert len(grown) == 2
    assert max(grown) < 25, grown


class _Memory:
    """What ``Argument.bind`` wants of a memory strategy; windows are counted."""

    def __init__(self) -> None:
        self.alive = self.most = 0
        self.turnover = heap.Turnover()

    def at(self, pointer: int, nbytes: int) -> _Window:
        return _Window(self)


class _Window:
    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        memory.alive += 1
        memory.most = max(memory.most, memory.alive)

    def __del__(self) -> None:
        self.memory.alive -= 1


@pytest.mark.parametrize(
    ("nbytes", "most"), [(4, 64), (32 << 10, 64), (1 << 20, 2), (2 << 20, 1), (25 << 20, 1)]
)
def test_windows_that_are_kept(nbytes: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes first, before the new one is made."""
    monkeypatch.setattr(heap, "give_back_freed", lambda: None)
    memory, argument = _Memory(), Argument(nbytes, ())
    for n in range(1, 100):
        argument.bind(n << 12, memory)  # type: ignore[arg-type]
        assert argument.pointer == n << 12
        assert list(argument.windows) == [k << 12 for k in range(max(1, n - most + 1), n + 1)]
    assert memory.most == most


def test_addresses_are_kept_whatever_lies_behind_them() -> None:
    memory, argument = _Memory(), Argument(25 << 20, (), addresses=True)
    for n in range(1, 100):
        argument.bind(n << 12, memory)  # type: ignore[arg-type]
        assert list(argument.windows) == [k << 12 for k in range(max(1, n - 63), n + 1)]
    assert memory.most == 64


def test_freed_memory_is_given_back_more_and_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    turnover = heap.Turnover()
    monkeypatch.setattr(heap, "give_back_freed", lambda: times.append(turnover.moved_bytes >> 20))
    for _ in range(200):
        turnover.moved(25 << 20)
    assert times == [25 * n for n in (11, 14, 18, 23, 29, 37, 47, 59, 74, 93, 117, 147, 184)]
