"""Side-by-side benchmark: eager, Inductor, Inductor with freezing, and OpenCL on each driver.

``python -m benchmarks.run [CASE…]``, cases as in :mod:`benchmarks.cases`. For each case every
contender first runs alone in a fresh process with empty caches (seconds to the first result, peak
memory) and in another that finds them filled, then all of them run in one process in turns (times,
errors against float64).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import report
from benchmarks.cases import TABLE, TRAINING, Case, expand
from benchmarks.contenders import BASELINES, opencl
from benchmarks.drivers import PIP_DRIVERS
from benchmarks.engines import ENGINES
from benchmarks.zoo import ALL, MICRO
from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.process.isolation import Outcome, merge_caches, run_job

SCHEMA = 1
WORKER = "benchmarks.worker"
ROOT = Path(__file__).parents[1]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and how long to wait for it."""

    contenders: list[str]
    repeats: int
    small: bool
    threads: int | None
    timeout_s: float
    training: bool = False
    dtype: str = "float32"

    def job(self, kind: str, case: Case, **more: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "case": case.entry,
            "small": self.small,
            "batch": case.batch,
            "threads": self.threads,
            "training": self.training,
            "dtype": self.dtype,
            "repeats": self.repeats,
            **more,
        }


def measure_case(case: Case, plan: Plan, say: Say) -> dict[str, Any]:
    """All contenders on one case; a contender that crashes alone is not timed with the others."""
    name = str(case)
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folders = {c: Path(scratch, f"cold{i}") for i, c in enumerate(plan.contenders)}
        for contender, folder in folders.items():
            results[contender] = measure_alone(case, contender, plan, folder, say)
        healthy = [c for c in plan.contenders if results[c]["status"] == "ok"]
        shared = Path(scratch, "shared")
        merge_caches([folders[c] for c in healthy], shared)
        job = plan.job("timed", case, contenders=healthy)
        timeout = plan.timeout_s * max(1, len(healthy))
        outcome = run_job(
            job,
            shared,
            Limits(timeout),
            lambda text: say(f"{name}: {text}"),
            module=WORKER,
            folder=ROOT,
        )
    merge_timed(results, healthy, outcome)
    return {"name": name, "status": outcome.status, "contenders": results}


def measure_alone(case: Case, contender: str, plan: Plan, folder: Path, say: Say) -> dict[str, Any]:
    """Two processes, one after the other: the first finds ``folder`` empty, the second filled."""
    result: dict[str, Any] = {}
    for temperature in ("cold", "warm"):
        say(f"{case}: {contender}, {temperature}")
        job = plan.job("first", case, contender=contender, after_imports=True)
        outcome = run_job(job, folder, Limits(plan.timeout_s), module=WORKER, folder=ROOT)
        result |= {"status": outcome.status, "message": outcome.message}
        found = outcome.first("first") or {}
        if temperature == "cold":
            result |= found
        elif found:
            result["warm_s"] = found["compile_s"]
        alone = outcome.first("alone")
        if alone:  # of the process that ran last
            result["alone_ms"] = alone["alone_ms"]
        if outcome.status != "ok" or contender == "eager":
            break
    return result


def merge_timed(results: dict[str, dict[str, Any]], healthy: list[str], outcome: Outcome) -> None:
    """Write what the common process said into each contender's result."""
    for event in outcome.events:
        values = {k: v for k, v in event.items() if k not in ("event", "contender")}
        if event["event"] == "failed":
            values["status"] = "error"
        results[event["contender"]].update(values)
    for contender in healthy:
        result = results[contender]
        if result["status"] == "ok" and "median_ms" not in result:
            # The process all of them share died: whose fault it was is not known.
            result.update(status=outcome.status, message=outcome.message)


def run_all(cases: list[Case], plan: Plan, path: Path | None) -> list[dict[str, Any]]:
    """Measure every case with a progress display, writing ``path`` after each."""
    screen = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        job = {"kind": "environment", "threads": plan.threads}
        environment = run_job(job, Path(scratch), Limits(120), module=WORKER, folder=ROOT)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "environment": environment.first("environment"),
        "settings": {
            "repeats": plan.repeats,
            "small": plan.small,
            "training": plan.training,
            "dtype": plan.dtype,
        },
        "cases": [],
    }
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as progress:
        task = progress.add_task("starting", total=len(cases))

        def say(text: str) -> None:
            progress.update(task, description=text)

        for done, case in enumerate(cases, start=1):
            if not screen.is_terminal:
                screen.print(f"[{done}/{len(cases)}] {case}", markup=False, highlight=False)
            document["cases"].append(measure_case(case, plan, say))
            progress.update(task, completed=done)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(document, indent=1) + "\n")
    return document["cases"]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("cases", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="List the cases and stop.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    default=PIP_DRIVERS,
    show_default=True,
    help="An OpenCL device, as the backend's device option takes it; may be repeated.",
)
@click.option(
    "--against",
    multiple=True,
    type=click.Choice((*BASELINES, *ENGINES)),
    default=BASELINES,
    show_default=True,
    help="What to compare with; may be repeated.",
)
@click.option("--repeats", default=20, show_default=True, type=click.IntRange(1), help="Rounds.")
@click.option("--training", is_flag=True, help="Forward and backward, without dropout.")
@click.option(
    "--dtype",
    type=click.Choice(("float32", "bfloat16", "float16")),
    default="float32",
    show_default=True,
    help="Of weights and inputs.",
)
@click.option("--small", is_flag=True, help="The small variants that the tests use.")
@click.option("--batch", type=click.IntRange(1), help="For cases that name none.")
@click.option("--threads", type=click.IntRange(1), help="torch threads; default torch's own.")
@click.option(
    "--timeout", default=600.0, show_default=True, help="Seconds for one contender's process."
)
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path))
def main(
    cases: tuple[str, ...],
    listing: bool,
    devices: tuple[str, ...],
    against: tuple[str, ...],
    repeats: int,
    training: bool,
    dtype: str,
    small: bool,
    batch: int | None,
    threads: int | None,
    timeout: float,
    path: Path | None,
) -> None:
    """Compare CASES: names, name@batch, families, "table" (the default) or "all".

    The exit status is 1 if any contender failed on any case.
    """
    console = Console()
    if listing:
        for name, entry in ALL.items():
            kind = "program" if name in MICRO else "model"
            console.print(f"{name:16} {entry.family:10} {kind}", highlight=False)
        return
    if training:  # what is frozen or exported has constants for weights
        against = tuple(a for a in against if a not in ("inductor-freezing", *ENGINES))
    contenders = [*against, *(opencl(device) for device in devices)]
    plan = Plan(contenders, repeats, small, threads, timeout, training, dtype)
    results = run_all(expand(cases, batch, TRAINING if training else TABLE), plan, path)
    console.print(report.measurements(results))
    console.print(report.LEGEND, highlight=False)
    console.print(report.ratios(results, contenders))
    problems = report.failures(results)
    for line in problems:
        console.print(line, style="red", markup=False, highlight=False)
    if problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
