"""The bar appears on a terminal alone, only when work takes long, and goes when it ends."""

from __future__ import annotations

import io
import sys
import time

import pytest

from ocl_inductor.runtime.build import progress as module
from ocl_inductor.runtime.build.progress import progress


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def shown(monkeypatch, *, terminal: bool, enabled: bool, seconds: float) -> str:
    """What a piece of work that takes so long writes to standard error."""
    stream = Stream(terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "DELAY_SECONDS", 0.05)
    with progress("OpenCL kernels", 4, enabled) as advance:
        advance()
        time.sleep(seconds)
        for _ in range(3):
            advance()
    return stream.getvalue()


def test_long_work_on_a_terminal(monkeypatch) -> None:
    text = shown(monkeypatch, terminal=True, enabled=True, seconds=1.5)
    assert "OpenCL kernels" in text
    assert "1/4" in text


@pytest.mark.parametrize(("terminal", "enabled"), [(False, True), (True, False)])
def test_silent_elsewhere(terminal: bool, enabled: bool, monkeypatch) -> None:
    assert shown(monkeypatch, terminal=terminal, enabled=enabled, seconds=0.2) == ""


def test_short_work_is_silent(monkeypatch) -> None:
    assert shown(monkeypatch, terminal=True, enabled=True, seconds=0) == ""


def test_an_error_ends_it(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", Stream(True))
    with pytest.raises(ValueError, match="x"), progress("w", 1, True):
        raise ValueError("x")
