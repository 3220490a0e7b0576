"""Progress of a sweep: a bar with the current step on a terminal, a line a result in a pipe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from ocl_inductor.sweep.record import Record
    from ocl_inductor.sweep.run.runner import Unit, Watcher


class _Lines:
    """Prints each unit's outcome; with a bar above it on a terminal."""

    def __init__(self, screen: Console, total: int, bar: Progress | None) -> None:
        self.screen = screen
        self.total = total
        self.bar = bar
        self.task = None if bar is None else bar.add_task("starting", total=total)
        self.done = 0

    def started(self, unit: Unit, done: int, total: int) -> None:
        self.done = done
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description=unit.title, completed=done, total=total)

    def said(self, text: str) -> None:
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description=text)

    def finished(self, unit: Unit, records: list[Record]) -> None:
        self.done += 1
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=self.done)
        for record in records:
            self.screen.print(
                f"[{self.done}/{self.total}] {_outcome(record)}",
                markup=False,
                highlight=False,
                soft_wrap=True,
                style=None if record.status.good else "red",
            )


def _outcome(record: Record) -> str:
    text = f"{record.title} {record.what} {record.backend}: {record.status}"
    speedup, latency = record.metric("speedup"), record.metric("abs_latency")
    if speedup is not None and latency is not None:
        text += f", {latency:.3g} ms, {speedup:.2f}x"
    if record.message:
        text += f", {record.message}"
    return text


@contextlib.contextmanager
def watch(total: int) -> Iterator[Watcher]:
    """A watcher that writes to standard error while the block runs."""
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield _Lines(screen, total, None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen) as bar:
        yield _Lines(screen, total, bar)
