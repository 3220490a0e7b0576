"""Following what the package says in its log while a command works, with progress."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def watching(log: logging.Logger, kind: type[T], told: Callable[[T], None]) -> Iterator[None]:
    """Inside of the block ``told`` gets each value of ``kind`` that is logged, in any thread."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if isinstance(record.args, tuple):
                for value in record.args:
                    if isinstance(value, kind):
                        told(value)

    handler, level, propagates = Handler(), log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    # Who asked for the log with TORCH_LOGS has it all the same.
    log.propagate = propagates and level <= logging.INFO and level != logging.NOTSET
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates


@contextlib.contextmanager
def progress(doing: str) -> Iterator[Callable[[str], None]]:
    """A line each on standard error, below them what is going on where that is a terminal."""
    from rich.console import Console

    screen = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    with screen.status(doing) if screen.is_terminal else contextlib.nullcontext():
        yield screen.print
