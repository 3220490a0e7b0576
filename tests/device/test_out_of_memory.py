"""A call that does not fit raises what eager raises, and spoils none that does."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers

from ocl_inductor.errors import NO_CPU_MEMORY, DeviceMemoryError
from ocl_inductor.runtime.memory import recycling
from ocl_inductor.runtime.memory.scratch import Arena
from ocl_inductor.runtime.memory.strategy import UnifiedMemory
from ocl_inductor.runtime.pressure import release_idle

each_driver = pytest.mark.parametrize("driver", two_drivers())


def _long(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(0).cumsum(1).flip(0).cumsum(0)


def whole(*size: int) -> torch.Tensor:
    """Small whole numbers, whose sums are exact in any order."""
    return random(*size, dtype=torch.int64).remainder(5).float() - 2


class Limit:
    """Scratch memory of a limited size, and what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
        allocate = UnifiedMemory.allocate
        self.nbytes = nbytes
        self.refused = 0

        def limited(memory: UnifiedMemory, nbytes: int) -> Any:
            if nbytes > self.nbytes:
                self.refused += 1
                raise DeviceMemoryError(nbytes, 0, 0)
            return allocate(memory, nbytes)

        monkeypatch.setattr(UnifiedMemory, "allocate", limited)
        release_idle()


@each_driver
def test_smaller_sizes_after_some_that_did_not_fit(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = compiled(_long, driver, dynamic=True)
    small, large = whole(40, 17), whole(4000, 17)
    torch.testing.assert_close(function(small), _long(small))
    limit = Limit(monkeypatch, 100 << 10)
    for x in (large, small, large, small):
        if x is large:
            with pytest.raises(RuntimeError, match=NO_CPU_MEMORY):
                function(x)
        else:
            torch.testing.assert_close(function(x), _long(x))
    assert limit.refused >= 2


@each_driver
def test_smaller_sizes_after_larger_ones_that_would_not_fit_any_more(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layout of the larger ones is given up, down to the byte."""
    function = compiled(_long, driver, dynamic=True)
    small, large = whole(1029, 17), whole(4000, 17)
    torch.testing.assert_close(function(large), _long(large))
    limit = Limit(monkeypatch, 2 * 1029 * 17 * 4 + 512)
    torch.testing.assert_close(function(small), _long(small))
    assert limit.refused
    limit.refused = 0
    torch.testing.assert_close(function(small), _long(small))
    assert not limit.refused


@each_driver
@pytest.mark.parametrize("dynamic", [False, True])
def test_room_for_results_is_made_where_scratch_memory_lies(
    driver: str, dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arena that plans share has the size of the largest call, also while a small one runs."""
    function, x = compiled(_long, driver, dynamic=dynamic), whole(1029, 17)
    torch.testing.assert_close(function(x), _long(x))
    larger = compiled(_long, driver, dynamic=False)
    y = whole(8000, 17)
    torch.testing.assert_close(larger(y), _long(y))
    for name, module in (("allocate", recycling), ("empty_strided", torch)):
        allocate = getattr(module, name)

        def limited(*args: Any, allocate: Any = allocate, **kwargs: Any) -> torch.Tensor:
            if any(arena.nbytes >= 8000 * 17 * 4 for arena in arenas if arena.nbytes):
                raise RuntimeError(f"[enforce fail] . {NO_CPU_MEMORY}: you tried to allocate")
            return allocate(*args, **kwargs)

        monkeypatch.setattr(module, name, limited)
    arenas: list[Arena] = []
    reserve = Arena.reserve

    def noted(arena: Arena, *args: Any) -> None:
        arenas.append(arena)
        reserve(arena, *args)

    monkeypatch.setattr(Arena, "reserve", noted)
    recycling.release_results()
    torch.testing.assert_close(function(x), _long(x))


#: A training step with matrices of n*n, halved until it fits, under a limit of the address space.
_HALVING = """
import resource
import sys
from pathlib import Path

import torch


def function(x):
    return ((x.sin() @ x.t()).softmax(-1).exp() @ x).tanh().sum()


def step(f, n):
    stage = "forward"
    x = torch.randn(n, 64, generator=torch.Generator().manual_seed(n)).requires_grad_()
    try:
        loss = f(x)
        stage = "backward"
        loss.backward()
    except RuntimeError as error:
        assert "DefaultCPUAllocator: can't allocate memory" in str(error), error
        return stage
    return x.grad


options = {"device": sys.argv[1]}
compiled = torch.compile(function, backend="opencl", dynamic=True, options=options)
expected = {n: step(function, n) for n in (2000, 1000, 90)}
torch.testing.assert_close(step(compiled, 90), expected[90], rtol=1e-3, atol=1e-4)
used = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (350 << 20), -1))
outcomes = []
for n in (14000, 7000, 5000, 2000, 7000, 1000):
    outcome = step(compiled, n)
    if isinstance(outcome, torch.Tensor):
        torch.testing.assert_close(outcome, expected[n], rtol=1e-3, atol=1e-4)
        outcome = "result"
    outcomes.append(outcome)
print(*outcomes)
"""


@each_driver
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_a_smaller_batch_works_after_larger_ones_that_did_not_fit(driver: str) -> None:
    """Also where there was memory for a forward graph, and none for its backward graph."""
    done = subprocess.run(
        [sys.executable, "-c", _HALVING, driver], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["forward", "forward", "backward", "result", "forward", "result"]
