"""Saying what is going on: a spinner on a terminal, a line for each finished step in a pipe."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console


@contextlib.contextmanager
def step(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show ``text`` while the block runs, and how long it took afterwards.

    Gives a function that changes the text shown while it runs.
    """
    start = time.perf_counter()
    with console.status(f"{text} …") as status:
        yield lambda detail: status.update(f"{text} … {detail}")
    console.print(f"  {text}: {time.perf_counter() - start:.1f} s", highlight=False)
