"""Measuring some results of a sweep again, with what is installed now."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.bisect.candidates import Candidates, MeasuringPlace
from ocl_inductor.sweep.record import FILE_NAME, Record, SweepResults, read_results

PROGRAM = "from ocl_inductor.cli import main; main()"


class RemeasureError(OpenCLInductorError):
    """A measurement that did not take place."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key} could not be measured again: {reason}", key=key)


def remeasure(results: SweepResults, keys: Iterable[str]) -> SweepResults:
    """Run the commands that reproduce the records ``keys`` and return what they gave.

    Raises:
        RemeasureError: a command wrote no result.
    """
    records = results.by_key()
    found: list[Record] = []
    for key in keys:
        record = records[key]
        words = shlex.split(record.reproduce)[3:]
        settings = results.settings
        if record.what == "performance" and settings.get("repeat"):
            words += ["--repeat", str(settings["repeat"])]
        if settings.get("timeout_s"):
            words += ["--timeout", str(settings["timeout_s"])]
        fresh = {r.key: r for r in run_sweep(words)}
        if key not in fresh:
            raise RemeasureError(key, f"the command gave {json.dumps(sorted(fresh))}")
        found.append(fresh[key])
    return SweepResults(results.environment, results.settings, tuple(found))


def measure_at(candidates: Candidates, name: str, words: Sequence[str]) -> Record:
    """The one result that ``sweep run`` gives with the arguments ``words`` at a candidate.

    Raises:
        CandidateError: it cannot be checked out or installed.
        RemeasureError: the run gives no result, or several that are not eager's.
    """
    with candidates.ready(name) as place:
        records = run_sweep(words, place)
    found = [r for r in records if r.backend != "eager"] or records
    if len(found) != 1:
        keys = ", ".join(r.key for r in found) or "nothing"
        raise RemeasureError(name, f"the arguments must select one result, not {keys}")
    return found[0]


def run_sweep(words: Sequence[str], place: MeasuringPlace | None = None) -> tuple[Record, ...]:
    """The records of ``sweep run`` with the arguments ``words``, in a process of its own.

    Raises:
        RemeasureError: it wrote no results.
    """
    with tempfile.TemporaryDirectory(prefix="sweep-again-") as scratch:
        command = [sys.executable, "-c", PROGRAM, "sweep", "run", *words, "--output", scratch]
        done = subprocess.run(
            command,
            cwd=None if place is None else place.folder,
            env={**os.environ, **({} if place is None else place.environment)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if not Path(scratch, FILE_NAME).exists():
            reason = (done.stderr.strip() or "no output")[-300:]
            raise RemeasureError(shlex.join(words), reason)
        return read_results(Path(scratch)).records
