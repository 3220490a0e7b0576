"""Run a job of ``worker`` in a process of its own, with caches of its own.

A segmentation fault in a driver, a hang and an exception all become a status.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: ``ok``, ``error``, ``crashed`` or ``timeout``, and what it said."""

    status: str
    message: str = ""
    events: list[Event] = field(default_factory=list)

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
        "POCL_CACHE_DIR": str(folder / "pocl"),
        "OCL_INDUCTOR_CACHE_DIR": str(folder / "ocl_inductor"),
    }


def merge_caches(sources: list[Path], target: Path) -> None:
    """Copy several cache folders into one; entries of one name have one content."""
    for source in sources:
        if source.exists():
            shutil.copytree(source, target, dirs_exist_ok=True)


def _ending(returncode: int, stderr: str) -> tuple[str, str]:
    lines = [line for line in stderr.strip().splitlines() if line.strip()]
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = f"signal {-returncode}"
        return "crashed", f"{name}: {lines[-1] if lines else 'no message'}"
    return "error", lines[-1] if lines else f"exit status {returncode}"


def run_job(
    job: dict[str, Any],
    caches: Path,
    timeout_s: float,
    on_progress: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Run one job to its end; never raises for what the job does."""
    folder = Path(__file__).parents[1]
    environment = {**os.environ, **cache_environment(caches)}
    events: list[Event] = []
    with tempfile.TemporaryFile("w+") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", json.dumps(job)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=folder,
            env=environment,
        )
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(timeout_s, expire)
        timer.start()
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
            process.kill()
            process.wait()
            raise
        finally:
            timer.cancel()
        if expired.is_set():
            return Outcome("timeout", f"longer than {timeout_s:.0f} s", events)
        if returncode == 0:
            return Outcome("ok", "", events)
        stderr.seek(0)
        status, message = _ending(returncode, stderr.read())
        return Outcome(status, message, events)
