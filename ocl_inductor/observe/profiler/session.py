"""Taking a profile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ocl_inductor.observe.profiler.profile import Profile
from ocl_inductor.patches.pytorch.compile_times import noting
from ocl_inductor.runtime.recording import EventRecorder


@contextlib.contextmanager
def profile() -> Iterator[Profile]:
    """Take times of every kernel, transfer and host call of compiled graphs in the block.

    Graphs compiled before and in the block count alike, in all threads. Read the result after the
    block::

        with ocl_inductor.profile() as p:
            model(x)
        print(p.table())

    Raises OpenCLInductorError inside of another profile.
    """
    result = Profile()
    compiling = _Compiling(result.compiles)
    with EventRecorder() as recorder, noting(compiling.start, compiling.end):
        result.start_ns = time.time_ns()
        try:
            yield result
        finally:
            result.end_ns = time.time_ns()
            result.calls = tuple(recorder.calls)
            result.overhead_ns = recorder.overhead_ns


class _Compiling:
    """Notes when Dynamo compiles."""

    def __init__(self, found: list[tuple[int, int]]) -> None:
        self.found = found
        self.since = 0

    def start(self, args: object) -> None:
        self.since = time.time_ns()

    def end(self, args: object) -> None:
        if self.since:
            self.found.append((self.since, time.time_ns()))
        self.since = 0
