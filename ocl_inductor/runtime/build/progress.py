"""A progress bar on the terminal for long compilations: nothing in pipes, files and logs."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

#: Shorter work needs no progress bar.
DELAY_SECONDS = 3.0


@contextlib.contextmanager
def progress(what: str, total: int, enabled: bool) -> Iterator[Callable[[], None]]:
    """Gives a function to call after each of ``total`` pieces of work; any thread may call it.

    A bar appears on standard error when the work takes longer than ``DELAY_SECONDS``, and goes
    when it ends. Nothing appears where standard error is not a terminal.
    """
    if not enabled or not sys.stderr.isatty():
        yield lambda: None
        return
    bar = _Bar(what, total)
    timer = threading.Timer(DELAY_SECONDS, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.advance
    finally:
        timer.cancel()
        bar.close()


class _Bar:
    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.lock = threading.Lock()
        self.closed = False
        self.bar: Any = None
        self.task: Any = None

    def show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        with self.lock:
            if self.closed:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            try:
                self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
                self.task = self.bar.add_task(self.what, total=self.total, completed=self.done)
                self.bar.start()
            except Exception:  # a live display of the user's own is on: rich allows one
                self.bar = None

    def advance(self) -> None:
        with self.lock:
            self.done += 1
            if self.bar is not None:
                self.bar.update(self.task, completed=self.done)

    def close(self) -> None:
        with self.lock:
            self.closed = True
            if self.bar is not None:
                self.bar.stop()
