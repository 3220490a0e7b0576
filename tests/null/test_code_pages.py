"""When the memory of drivers' code is released."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ocl_inductor.device.driver import code_pages


def test_many_releases_take_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, released = 100.0, []
    monkeypatch.setattr(code_pages, "time", SimpleNamespace(monotonic=lambda: now))
    code = code_pages.DriverCode()

    def release() -> None:
        nonlocal now
        released.append(now)
        now += 0.01

    monkeypatch.setattr(code, "_release", release)
    for _ in range(1000):
        code.release()
        now += 0.005
    # About thirty at once; then one of 10 ms in 200, in the five seconds and what all of them took.
    assert 50 <= len(released) <= 60
    assert released[29] < 100.5
    assert released[-1] - released[-2] > 0.15
    now += 60
    first = len(released)
    for _ in range(100):
        code.release()
    assert 30 <= len(released) - first <= 33
