"""One run of a table: a process for each cell, with caches that are empty at first.

A cell that crashes, takes too long or does not fit into memory is a line that says so.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.field.lines import Lines, begin
from benchmarks.steps import step
from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.process.isolation import run_job

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Session:
    """Where a run's lines go, and what its processes get."""

    lines: Lines
    caches: Path
    variables: Mapping[str, str]
    console: Console

    def cell(self, title: str, facts: dict[str, Any], limits: Limits, **more: Any) -> str:
        """Measure in a process of its own, which writes its lines; how it ended.

        ``facts`` identify the cell: they are in its lines, and in the one that says how it failed.
        """
        job = {"lines": self.lines.as_dict(), "facts": facts, **more}
        with step(self.console, title) as say:
            outcome = run_job(
                job,
                self.caches,
                limits,
                say,
                module="benchmarks.field.worker",
                environment=self.variables,
                folder=ROOT,
            )
        status, message = outcome.status, outcome.message
        if status != "ok":
            self.lines.write(status, **facts, message=message)
        elif failed := outcome.first("failed"):  # which has its line
            status, message = failed["status"], failed["message"]
        if status != "ok":
            self.console.print(f"  {title}: {status}: {message}", style="red", markup=False)
        return status

    def show(self, table: Table, *notes: str) -> None:
        """The table, what has to be known to read it, and where its lines are."""
        print_to = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
        print_to.print(table)
        facts = self.lines.facts
        if facts["kind"] == "cpu":
            notes = (
                *notes,
                "`ocl` is a CPU's driver here: this is what the device costs, not what it brings.",
            )
        print_to.print(*notes, sep="\n", markup=False)
        print_to.print(
            f"{facts['processor']}, {facts['cores']} cores; {facts['driver']}; PyTorch "
            f"{facts['versions']['torch']}; {self.lines.path}",
            markup=False,
            soft_wrap=True,
        )


@contextmanager
def session(table: str, output: Path | None, device: str | None) -> Iterator[Session]:
    """A run of ``table``, which appends to ``output/table.jsonl``."""
    folder = output or ROOT / "docs" / "results" / f"{time.strftime('%Y-%m-%d')}-field"
    variables = {} if device is None else {"OCL_INDUCTOR_DEVICE": device}
    wanted = device if device is not None else os.environ.get("OCL_INDUCTOR_DEVICE")
    with tempfile.TemporaryDirectory(prefix="field-") as caches:
        lines = begin(table, folder, wanted)
        yield Session(lines, Path(caches), variables, Console(stderr=True))


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that all tables have."""
    for option in (
        click.option("--device", help="OpenCL device (default: the preferred one)."),
        click.option(
            "--output",
            type=click.Path(file_okay=False, path_type=Path),
            help="Folder for the lines (default: docs/results/<date>-field).",
        ),
    ):
        command = option(command)
    return command


def several(text: str, kind: Callable[[str], Any] = str) -> list[Any]:
    """The values of an option that takes a list with commas.

    Raises:
        click.UsageError: one of them is not of the kind.
    """
    try:
        return [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise click.UsageError(f"{text!r}: {error}") from error
