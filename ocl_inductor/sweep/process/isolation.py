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
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ocl_inductor.device.quirks import CACHE_VARIABLES
from ocl_inductor.support import child_process
from ocl_inductor.support.child_process import Limits

Event = dict[str, Any]


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


def without_folders(text: str) -> str:
    """A log as it may be published: without where packages, the project and scratch files lie."""
    scratch = tempfile.gettempdir()
    for folder in (sysconfig.get_path("purelib"), os.getcwd(), str(Path.home()), scratch):
        text = text.replace(folder + os.sep, "")
    return text


def _ending(returncode: int, stderr: str) -> tuple[str, str]:
    """The status, and the message, of a job that ended by itself and not well."""
    last = child_process.last_line(stderr)
    how = child_process.ending(returncode)
    if returncode < 0:
        # Not sent by the sweep: the system ran out of memory, and ends this process first.
        return "oom" if how == "SIGKILL" else "crashed", f"{how}: {last or 'no message'}"
    return "error", last or how


def run_job(
    job: Mapping[str, object],
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
        process = child_process.start(
            [python or sys.executable, "-m", module, json.dumps(dict(job))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=folder,
            env=variables,
        )
        guard = child_process.ProcessGuard(process, limits)
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
            child_process.end_group(process)
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
