"""Rows in child processes, so that a crash, a hang or lost memory costs one row.

Children are forked from a parent that has imported torch and PyTorch's list of operators but has
not touched OpenCL: a new one starts in no time.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import psutil

from conformance.rows import FAIL, Result, Row

Check = Callable[[Row], Result]


def run_rows(
    rows: Sequence[Row],
    check: Check,
    *,
    chunk: int = 40,
    seconds: float = 120.0,
    memory_bytes: int = 10 << 30,
) -> Iterator[Result]:
    """Results of ``rows`` in order.

    ``chunk``: rows of one child, which bounds what a leak can do. ``seconds``: a row that takes
    longer is a failure, as is one whose process exceeds ``memory_bytes``.
    """
    context: Any = multiprocessing.get_context("fork")
    waiting = list(rows)
    while waiting:
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_child, args=(waiting[:chunk], check, sender), daemon=True)
        child.start()
        sender.close()
        try:
            for _ in range(min(chunk, len(waiting))):
                row = waiting.pop(0)
                answer = _wait(receiver, child, seconds, memory_bytes)
                if isinstance(answer, Result):
                    yield answer
                    continue
                yield Result(row, FAIL, detail=answer)
                break
        finally:
            child.kill()
            child.join()
            receiver.close()


def _wait(receiver: Any, child: Any, seconds: float, memory_bytes: int) -> Result | str:
    """The next result, or how the child ended without one."""
    waited = 0.0
    while waited < seconds:
        start = time.monotonic()
        try:
            if receiver.poll(0.5):
                result: Result = receiver.recv()
                return result
        except EOFError:
            child.join()
            return f"crash: {_signal(child.exitcode)}"
        with suppress(psutil.Error):
            if psutil.Process(child.pid).memory_info().rss > memory_bytes:
                return f"out of memory: more than {memory_bytes >> 20} MiB"
        # A machine or process that was suspended does not count as a hang.
        waited += min(1.0, time.monotonic() - start)
    return f"hang: longer than {seconds:.0f} s"


def _signal(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _child(rows: Sequence[Row], check: Check, sender: Any) -> None:
    for row in rows:
        sender.send(check(row))
