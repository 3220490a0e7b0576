"""Tasks in child processes, so that a crash, a hang or lost memory costs one task.

Children are forked from a parent that has imported torch but has not touched OpenCL: a new one
starts in no time.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from conformance.rows import FAIL, Result, Row
from ocl_inductor.support import child_process

Task = TypeVar("Task")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Died:
    """How a child ended without an answer: a crash, a hang, lost memory."""

    how: str


class Child(Generic[Task, Answer]):
    """One process at a time that answers tasks; a new one after each that died.

    ``check`` runs in the child. ``chunk``: tasks of one process, which bounds what a leak can do.
    ``seconds``: a task that takes longer has died, as has one whose process exceeds
    ``memory_bytes``.
    """

    def __init__(
        self,
        check: Callable[[Task], Answer],
        *,
        chunk: int = 40,
        seconds: float = 120.0,
        memory_bytes: int = 10 << 30,
    ) -> None:
        self._check, self._chunk = check, chunk
        self._seconds, self._memory_bytes = seconds, memory_bytes
        self._process: Any = None
        self._pipe: Any = None
        self._asked = 0

    def ask(self, task: Task) -> Answer | Died:
        if self._process is None:
            self._start()
        self._asked += 1
        try:
            self._pipe.send(task)
            answer: Answer | Died = self._wait()
        except (BrokenPipeError, ConnectionResetError):
            answer = self._crash()
        if isinstance(answer, Died) or self._asked >= self._chunk:
            self.stop()
        return answer

    def stop(self) -> None:
        if self._process is not None:
            child_process.kill_group(self._process.pid)  # with what the driver has started
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None

    def __enter__(self) -> Child[Task, Answer]:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        context: Any = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_answer, args=(self._check, theirs, self._pipe), daemon=True
        )
        self._process.start()
        theirs.close()
        self._asked = 0

    def _wait(self) -> Any:
        waited = 0.0
        while waited < self._seconds:
            start = time.monotonic()
            try:
                if self._pipe.poll(0.5):
                    return self._pipe.recv()
            except (EOFError, ConnectionResetError):
                return self._crash()
            if child_process.resident_bytes(self._process.pid) > self._memory_bytes:
                return Died(f"out of memory: more than {self._memory_bytes >> 20} MiB")
            # A machine or process that was suspended does not count as a hang.
            waited += min(1.0, time.monotonic() - start)
        return Died(f"hang: longer than {self._seconds:.0f} s")

    def _crash(self) -> Died:
        self._process.join()
        return Died(f"crash: {child_process.ending(self._process.exitcode)}")


def run_rows(
    rows: Sequence[Row],
    check: Callable[[Row], Result],
    *,
    chunk: int = 40,
    seconds: float = 120.0,
    memory_bytes: int = 10 << 30,
) -> Iterator[Result]:
    """Results of ``rows`` in order; a row whose process died is a failure."""
    with Child(check, chunk=chunk, seconds=seconds, memory_bytes=memory_bytes) as child:
        for row in rows:
            answer = child.ask(row)
            yield Result(row, FAIL, detail=answer.how) if isinstance(answer, Died) else answer


def _answer(check: Callable[[Any], Any], pipe: Any, parents: Any) -> None:
    # Its own copy of the parent's end would keep it alive when the parent is gone.
    parents.close()
    os.setsid()  # a group of its own, which ends together
    with suppress(EOFError):
        while True:
            pipe.send(check(pipe.recv()))
