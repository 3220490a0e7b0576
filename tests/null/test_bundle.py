"""Small tensors side by side: which travel together, and in what order their windows go."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from ocl_inductor.device import fork
from ocl_inductor.runtime.discrete import bundle
from ocl_inductor.runtime.discrete.bundle import Bundle, Run
from ocl_inductor.runtime.discrete.pinned import CHUNK_BYTES
from ocl_inductor.runtime.memory.strategy import Allocation

MEMBERS = [("a", 100), ("b", 512), ("c", 1), ("d", 64)]


class Window:
    """Notes when it goes."""

    def __init__(self, name: tuple[int, int], gone: list[tuple[int, int]]) -> None:
        self.name, self.gone = name, gone

    def __del__(self) -> None:
        self.gone.append(self.name)


class Memory:
    """What a bundle asks of a plan's memory."""

    def __init__(self) -> None:
        self.gone: list[tuple[int, int]] = []

    def allocate(self, nbytes: int) -> Allocation:
        return Allocation(nbytes)

    def window(self, allocation: Allocation, offset: int, nbytes: int) -> Any:
        assert offset + nbytes <= allocation.nbytes
        return Window((offset, nbytes), self.gone)


def test_neighbours_travel_together() -> None:
    found = Bundle(MEMBERS, 128)
    assert found.nbytes == 128 + 512 + 128 + 128
    assert found.runs("cab") == [Run(0, 641, (("a", 0), ("b", 128), ("c", 640)))]
    assert found.runs("da") == [Run(0, 100, (("a", 0),)), Run(768, 832, (("d", 0),))]
    assert found.runs("") == []


def test_a_run_fits_in_a_chunk() -> None:
    third = CHUNK_BYTES // 3
    runs = Bundle([(str(n), third) for n in range(7)], 128).runs(map(str, range(7)))
    assert [len(run.members) for run in runs] == [2, 2, 2, 1]
    assert all(run.nbytes <= CHUNK_BYTES for run in runs)


def test_windows_go_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    memory: Any = Memory()
    gone = memory.gone
    found = Bundle(MEMBERS, 128)
    windows = found.make(memory)
    offsets = [0, 128, 640, 768]
    assert [window.name[0] for _, window in windows.values()] == offsets
    used = list(windows.values())
    del memory, windows
    gc.collect()
    used.clear()  # whoever used them lets go of them in any order
    assert gone == []
    monkeypatch.setattr(fork, "forked", True)
    bundle._free_retired()
    assert gone == []
    monkeypatch.setattr(fork, "forked", False)
    bundle._free_retired()
    assert [offset for offset, _ in gone] == offsets[::-1]
