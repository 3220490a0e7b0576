"""Runs the user's script inside a command, as ``python script.py`` would."""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import click


class _Terminated(BaseException):
    """SIGTERM came while the user's code ran."""


def run_program(script: Path, arguments: Sequence[str]) -> None:
    """Run it with these arguments. What it raises, SystemExit too, comes from here."""
    saved = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path[0:1] = [str(script.absolute().parent)]
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = saved


def why_it_ended(run: Callable[[], None], name: str) -> str:
    """Run the user's code; how it failed, in a few words, or "".

    Standard error says it too, with the traceback of an exception. Only what ends the process at
    once (SIGKILL, ``os._exit``, a crash) ends the command.
    """
    try:
        with _termination_raises():
            run()
    except SystemExit as end:
        if end.code is None or end.code == 0:
            return ""
        # As Python does: what is no number is a message.
        number = isinstance(end.code, int)
        why = f"exit code {end.code}" if number else f"the message {end.code!r}"
    except KeyboardInterrupt:
        why = "an interrupt (Ctrl-C)"
    except _Terminated:
        why = "SIGTERM"
    except BaseException as failed:  # frameworks derive from BaseException, too
        print_failure(failed)
        return f"{type(failed).__name__}: {next(iter(str(failed).splitlines()), '')}"
    else:
        return ""
    click.echo(f"{name} ended with {why}", err=True)
    return why


@contextlib.contextmanager
def _termination_raises() -> Iterator[None]:
    """SIGTERM as an exception unless it has a handler already: results so far are shown then."""

    def terminate(signum: int, frame: object) -> None:
        if os.getpid() == here:
            raise _Terminated
        signal.signal(signum, signal.SIG_DFL)  # a process that the script forked
        os.kill(os.getpid(), signum)

    here = os.getpid()

    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def print_failure(error: BaseException) -> None:
    """The traceback, on standard error, from where the user's code begins."""
    frames = error.__traceback__
    begun = False  # with the frames of the command
    while frames is not None and not (begun and not _of_the_command(frames)):
        begun = begun or _of_the_command(frames)
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _of_the_command(frames: TracebackType) -> bool:
    filename = frames.tb_frame.f_code.co_filename
    return Path(filename).parent == Path(__file__).parent or "runpy" in filename
