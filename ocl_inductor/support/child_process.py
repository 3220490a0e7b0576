"""Child processes: started in a group of their own, watched, and ended with all they have started.

Whatever starts a child and needs its answer does it with these: the compile workers, questions to
drivers that may crash, the sweep, benchmarks, conformance and the compilers of gpu_check. How the
answer looks (a line of JSON, several, pickles) is theirs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Seconds between two looks at a process: an allocation can overshoot its limit for this long.
POLL_SECONDS = 0.2
#: That a process which was killed, or what holds its output open, is waited for.
_SECONDS_TO_END = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may use.

    Attributes:
        timeout_s: seconds of wall time.
        memory_bytes: resident memory of the process and its children together, without pages of
            files, which the system takes back when it wants; None for no limit.
    """

    timeout_s: float
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended. ``code``: its exit status, negative for a signal, or None if it was
    ended at its time limit. The output is what it had written by then.
    """

    code: int | None
    stdout: str
    stderr: str

    @property
    def how(self) -> str:
        """How it ended, for a message."""
        return "its time limit" if self.code is None else ending(self.code)


# -- what is started ------------------------------------------------------------------------


def command(module: str, *arguments: str) -> list[str]:
    """A fresh interpreter that runs a module of this package."""
    return [sys.executable, "-m", module, *arguments]


def environment() -> Mapping[str, str]:
    """Variables with which it finds the same packages, and nothing in the working folder."""
    root = str(Path(__file__).parents[2])  # this very package, wherever it was found
    path = os.pathsep.join([root, *(p for p in sys.path if p)])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONSAFEPATH": "1",
        # numpy's idle threads would occupy cores by busy waiting.
        "OPENBLAS_NUM_THREADS": "1",
    }


# -- one process ----------------------------------------------------------------------------


def start(words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """A process that leads a group of its own; ``options``: those of ``subprocess.Popen``.

    Ctrl-C in a terminal does not reach it: the caller ends it, with :func:`end_group`.

    Raises:
        OSError: it cannot be started.
    """
    return subprocess.Popen(list(words), start_new_session=True, **options)


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process that leads a group, and the whole group."""
    kill_group(process.pid)
    process.kill()


def kill_group(leader: int) -> None:
    """Kill the process group of this number, where there is one."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return


def ending(code: int) -> str:
    """How a process ended: the name of a signal, or its exit status."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def last_line(text: str) -> str:
    """The last line that is not empty: of a traceback, the exception."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def run(
    words: Sequence[str],
    seconds: float,
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Finished:
    """Run a command to its end, or end it and all it has started after ``seconds``.

    ``variables``: the whole environment; this process's own by default.

    Raises:
        OSError: it cannot be started.
    """
    process = start(
        words,
        env=variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    code: int | None = None
    try:
        stdout, stderr = process.communicate(timeout=seconds)
        code = process.returncode
    except subprocess.TimeoutExpired:
        end_group(process)
        stdout, stderr = _rest(process)
    except BaseException:  # Ctrl-C
        end_group(process)
        process.wait()
        raise
    return Finished(code, stdout, stderr)


def _rest(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a process that was ended has written; does not wait for one that left its group."""
    try:
        return process.communicate(timeout=_SECONDS_TO_END)
    except subprocess.TimeoutExpired as late:
        return _text(late.stdout), _text(late.stderr)


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def answer(
    module: str, *arguments: str, seconds: float, variables: Mapping[str, str] | None = None
) -> Finished:
    """Run a module of this package to its end, with further ``variables`` in its environment.

    Raises:
        OSError: it cannot be started.
    """
    return run(command(module, *arguments), seconds, {**environment(), **(variables or {})})


# -- limits on time and memory --------------------------------------------------------------


class ProcessGuard(threading.Thread):
    """Watches a group's leader and ends the group when it exceeds a limit or the leader has ended.

    ``verdict``: ``timeout`` or ``oom`` where it was a limit.
    """

    def __init__(self, process: subprocess.Popen[Any], limits: Limits) -> None:
        super().__init__(name="child-guard", daemon=True)
        self.process = process
        self.limits = limits
        self.verdict: str | None = None
        self._over = threading.Event()

    def run(self) -> None:
        deadline = time.monotonic() + self.limits.timeout_s
        limit = self.limits.memory_bytes
        while not self._over.wait(POLL_SECONDS):
            if self.process.poll() is not None:
                break
            if time.monotonic() > deadline:
                self.verdict = "timeout"
                break
            if limit is not None and resident_bytes(self.process.pid) > limit:
                self.verdict = "oom"
                break
        end_group(self.process)

    def stop(self) -> None:
        self._over.set()
        self.join()


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and all its descendants, without pages of files (on Linux)."""
    import psutil  # not needed by what a compiled program runs

    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for member in family:
        try:
            memory = member.memory_info()
            total += memory.rss - getattr(memory, "shared", 0)
        except psutil.Error:
            continue  # ended in between
    return total
