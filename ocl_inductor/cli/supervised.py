"""A command that runs the user's code has exit codes of its own, whatever that code does.

The command goes on in a child process. What ends that at once, a crash of a driver, ``os._exit``
or the out-of-memory killer, is told by the parent, which has done nothing but wait.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

import click

from ocl_inductor.sweep.process.parent_end import end_with_parent

#: What ends a command from outside: sent on to the child. The terminal sends SIGINT to both.
_SENT_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def possible() -> bool:
    """Whether this system has what it takes."""
    return hasattr(os, "fork") and hasattr(signal, "sigwaitinfo")


def supervised(run: Callable[[], object], name: str) -> NoReturn:
    """Exit as ``run`` does, in another process; with 1 and a line where that process just ends.

    To be called before anything starts a thread or opens a driver. ``name``: of the user's code.
    """
    reading, writing = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_SENT_ON, signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        end_with_parent()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_SENT_ON, signal.SIGCHLD})
        _run_and_say_how(run, writing)
    status = _wait(child)
    os.close(writing)
    os.set_blocking(reading, False)
    try:
        said = os.read(reading, 1)
    except BlockingIOError:  # a process that the child left behind has the other end
        said = b""
    if said:
        os._exit(said[0])
    click.echo(f"{name} ended with {_how(status)}; nothing can be shown", err=True)
    os._exit(1)


def _run_and_say_how(run: Callable[[], object], writing: int) -> NoReturn:
    code = 1
    try:
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    finally:
        # Now, so that what happens at the interpreter's end does not count.
        sys.stdout.flush()
        os.write(writing, bytes([code & 255]))
    sys.exit(0)


def _wait(child: int) -> int:
    """The child's exit status; signals are sent on to it meanwhile."""
    while True:
        found = signal.sigwaitinfo({*_SENT_ON, signal.SIGCHLD})
        if found.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
        elif found.si_signo != signal.SIGINT or found.si_code == 0:  # by a process
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, found.si_signo)


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.WEXITSTATUS(status)}, at once"
