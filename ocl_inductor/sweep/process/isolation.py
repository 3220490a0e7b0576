"""Run a job in a process of its own, with caches of its own and limits on time and memory.

A segmentation fault in a driver, a hang, a model that needs more memory than there is, and an
exception all become the status of an ``Outcome``.

The process is ``python -m <module> <job as JSON>``; it answers in lines of JSON on standard output
(see ``child.py``), each as soon as it is known, so that a crash loses only what was not measured.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ocl_inductor.device.quirks import CACHE_VARIABLES

Event = dict[str, Any]

#: Seconds between two looks at a process: an allocation can overshoot its limit for this long.
POLL_SECONDS = 0.2


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
class Outcome:
    """How a job ended: ``ok``, ``error``, ``crashed``, ``timeout`` or ``oom``, and what it said.

    ``log`` is the end of what it wrote to standard error.
    """

    status: str
    message: str = ""
    events: list[Event] = field(default_factory=list)
    log: str = ""

    def first(self, kind: str) -> Event | None:
        """The first event of this kind, without its kind."""
        for event in self.events:
            if event["event"] == kind:
                return {k: v for k, v in event.items() if k != "event"}
        return None


def cache_environment(folder: Path) -> dict[str, str]:
    """Variables that send every compiler's disk cache into ``folder``.

    Without this, "cold" would depend on what ran on this machine before.
    """
    return {
        "XDG_CACHE_HOME": str(folder / "xdg"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        **{variable: str(folder / "driver") for variable in CACHE_VARIABLES},
        "OCL_INDUCTOR_CACHE_DIR": str(folder / "ocl_inductor"),
    }


def merge_caches(sources: list[Path], target: Path) -> None:
    """Copy several cache folders into one; entries of one name have one content."""
    for source in sources:
        if source.exists():
            shutil.copytree(source, target, dirs_exist_ok=True)


class _Guard(threading.Thread):
    """Watches a process and ends it, with its children, when it exceeds a limit or has ended.

    The process leads a group of its own, so that compile workers it started go with it.
    """

    def __init__(self, process: subprocess.Popen[str], limits: Limits) -> None:
        super().__init__(name="sweep-guard", daemon=True)
        self.process = process
        self.limits = limits
        self.verdict: str | None = None
        self.peak_bytes = 0
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
            if limit is not None:
                self.peak_bytes = max(self.peak_bytes, _resident_bytes(self.process.pid))
                if self.peak_bytes > limit:
                    self.verdict = "oom"
                    break
        end_group(self.process)

    def stop(self) -> None:
        self._over.set()
        self.join()


def _resident_bytes(pid: int) -> int:
    """Resident memory of a process and all its descendants, without pages of files (on Linux)."""
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


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process that leads a group, and the whole group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


def without_folders(text: str) -> str:
    """A log as it may be published: without where packages, the project and scratch files lie."""
    scratch = tempfile.gettempdir()
    for folder in (sysconfig.get_path("purelib"), os.getcwd(), str(Path.home()), scratch):
        text = text.replace(folder + os.sep, "")
    return text


def _ending(returncode: int, stderr: str) -> tuple[str, str]:
    lines = [line for line in stderr.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else "no message"
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = f"signal {-returncode}"
        # Not sent by the sweep: the system ran out of memory, and ends this process first.
        return "oom" if name == "SIGKILL" else "crashed", f"{name}: {last}"
    return "error", last if lines else f"exit status {returncode}"


def run_job(
    job: Mapping[str, Any],
    caches: Path | None,
    limits: Limits,
    on_progress: Callable[[str], None] = lambda text: None,
    *,
    module: str = "ocl_inductor.sweep.run.worker",
    python: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Outcome:
    """Run one job to its end; never raises for what the job does.

    Args:
        job: what ``module`` is told, as JSON.
        caches: the folder of every compiler's disk cache; None leaves them where they are.
        on_progress: called with the text of each ``progress`` event.
        python: the interpreter; this one by default.
        environment: further variables, which win over all others.
        folder: the process's working directory, which is also first on its import path.
    """
    variables = {
        **os.environ,
        **(cache_environment(caches) if caches is not None else {}),
        **(environment or {}),
    }
    events: list[Event] = []
    with tempfile.TemporaryFile("w+", errors="replace") as stderr:
        process = subprocess.Popen(
            [python or sys.executable, "-m", module, json.dumps(dict(job))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
        guard = _Guard(process, limits)
        guard.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                try:
                    event = json.loads(line)
                except json.JSONDecodeError:
                    break  # the process died in the middle of a line
                if event["event"] == "progress":
                    on_progress(event["text"])
                else:
                    events.append(event)
            returncode = process.wait()
        except BaseException:  # Ctrl-C: leave no measuring process behind
            end_group(process)
            process.wait()
            raise
        finally:
            guard.stop()
            if process.stdout is not None:
                process.stdout.close()
        stderr.seek(0)
        log = without_folders(stderr.read()[-20_000:])
    match guard.verdict:
        case "timeout":
            return Outcome("timeout", f"longer than {limits.timeout_s:.0f} s", events, log)
        case "oom":
            message = f"more than {(limits.memory_bytes or 0) / 2**30:.1f} GiB of memory"
            return Outcome("oom", message, events, log)
    if returncode == 0:
        return Outcome("ok", "", events, log)
    status, message = _ending(returncode, log)
    return Outcome(status, message, events, log)
