"""Timing waits for what disturbs it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from ocl_inductor.sweep.performance import timing
from ocl_inductor.sweep.performance.timing import REST_SECONDS, wait_for_children


def test_rounds_wait_for_child_processes_to_rest() -> None:
    program = "import sys\nprint(flush=True)\nwhile True: pass"
    busy = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert busy.stdout is not None
        busy.stdout.readline()  # it has begun
        assert not wait_for_children(limit_s=3 * REST_SECONDS)
    finally:
        busy.kill()
        busy.communicate()
    assert wait_for_children(limit_s=3 * REST_SECONDS)


def test_long_calls_are_timed_in_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    now = 0.0

    def pass_time(seconds: float) -> None:
        nonlocal now
        now += seconds

    def call(name: str, seconds: float) -> None:
        calls.append(name)
        pass_time(seconds)

    # The machine's own clock has other processes' work in it.
    clock = SimpleNamespace(perf_counter=lambda: now, sleep=pass_time)
    monkeypatch.setattr(timing, "time", clock)
    contenders = {"a": lambda: call("a", 0.03), "b": lambda: call("b", 0.01)}
    monkeypatch.setattr(timing, "ROUNDS_SECONDS", 0.28)
    monkeypatch.setattr(timing, "LONG_CALL_SECONDS", 0.02)
    found = timing.interleave(contenders, rounds=40)
    assert 5 <= len(found["a"].samples_ms) == len(found["b"].samples_ms) < 10
    assert found["a"].median_ms == pytest.approx(30)
    assert calls.count("a") == 2 + len(found["a"].samples_ms)  # nothing was run to settle
    assert calls.count("b") > 2 + len(found["b"].samples_ms)
    assert len(timing.interleave(contenders, rounds=3)["a"].samples_ms) == 3
