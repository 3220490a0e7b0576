"""Where a check spends its time."""

from __future__ import annotations

import time

from ocl_inductor.sweep.process.child import Emit


class PhaseClock:
    """Emits phases, and keeps how many seconds each of them took."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._seconds: dict[str, float] = {}
        self._phase, self._start = "", 0.0

    def __call__(self, phase: str) -> None:
        """``phase`` begins, and the one before it ends."""
        self.ended()
        self._emit("phase", phase=phase)
        self._phase, self._start = phase, time.perf_counter()

    def ended(self) -> dict[str, float]:
        """The last phase ends; seconds by phase."""
        if self._phase:
            spent = self._seconds.get(self._phase, 0.0) + time.perf_counter() - self._start
            self._seconds[self._phase] = round(spent, 2)
            self._phase = ""
        return self._seconds
