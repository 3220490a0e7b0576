"""``ocl-inductor sweep batch-size``, ``resolution`` and ``overhead``: one question each."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocl_inductor.cli.sweep.options import (
    FOLDER,
    mode_options,
    run_options,
    run_options_of,
    selection_of,
    selection_options,
    usage_errors,
)

if TYPE_CHECKING:
    from ocl_inductor.sweep.rows.selection import SelectedRow
    from ocl_inductor.sweep.run.batch import Point
    from ocl_inductor.sweep.run.runner import Runner, Unit


@click.command("batch-size")
@selection_options
@mode_options
@run_options
@click.option("--max-batch-size", type=click.IntRange(1), default=4096, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line a model.")
def batch_size_command(max_batch_size: int, as_json: bool, **given: object) -> None:
    """Find the batch size with the most samples a second, doubling from 1.

    Stops at the memory limit, the timeout, --max-batch-size, or when throughput stops growing.

    Exit codes: 0 every model has a best size, 1 one does not even run with 1, 2 wrong usage.
    """
    from ocl_inductor.cli.console import console

    with usage_errors():
        from ocl_inductor.sweep.run.batch import search_batch_size
        from ocl_inductor.sweep.run.runner import Runner, units

        rows = selection_of(given).rows()
        options = run_options_of(given, whats=("performance",))
        todo = units(rows, options)
    failed = False
    for unit in todo:
        for backend in options.backends:
            with tempfile.TemporaryDirectory(prefix="sweep-") as scratch:
                runner = Runner(options, Path(scratch))
                found = search_batch_size(
                    lambda size, u=unit, b=backend, r=runner: r.throughput(u, b, size),  # type: ignore[misc]
                    max_batch_size,
                    lambda p, u=unit: click.echo(f"  {u.row.name}: {_point(p)}", err=True),  # type: ignore[misc]
                )
            best = found.best
            failed |= best is None
            if as_json:
                value = {
                    "name": unit.row.name,
                    "mode": unit.mode,
                    "backend": backend.label,
                    "best": None if best is None else best.as_dict(),
                    "points": [p.as_dict() for p in found.points],
                }
                click.echo(json.dumps(value))
                continue
            table = _table("batch", "ms", "samples/s", "MiB", "status")
            for p in found.points:
                star = " *" if p is best else ""
                table.add_row(
                    f"{p.batch_size}{star}",
                    _number(p.median_ms),
                    _number(p.samples_per_s),
                    _number(p.host_mib),
                    str(p.status),
                )
            click.echo(f"{unit.row.name} [{unit.mode}] {backend.label}  (* most samples a second)")
            console().print(table)
    if failed:
        raise SystemExit(1)


def _point(point: Point) -> str:
    text = f"batch {point.batch_size}: {point.status}"
    return text if point.median_ms is None else f"{text}, {point.median_ms:.4g} ms"


def _table(*headings: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right" if heading not in ("status",) else "left")
    return table


def _number(value: float | None) -> str:
    from ocl_inductor.sweep.report.charts import number

    return "–" if value is None else number(value)


@click.command("resolution")
@selection_options
@mode_options
@run_options
@click.option("--output", type=FOLDER, metavar="FOLDER", help="For results, as of `sweep run`.")
@click.option("--resume", is_flag=True, help="Go on where the sweep in --output stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON lines.")
def resolution_command(output: Path | None, resume: bool, as_json: bool, **given: object) -> None:
    """Measure performance at every size that rows list under `resolutions`.

    Exit codes: 0 all ran, 1 one did not, 2 wrong usage.
    """
    from ocl_inductor.cli.sweep.run import finish, results_folder

    with usage_errors():
        from ocl_inductor.sweep.run.runner import Runner, units

        rows = [r for r in selection_of(given).rows() if r.config and r.config.resolutions]
        options = run_options_of(given, whats=("performance",))
    if not rows:
        raise click.UsageError("No selected model lists resolutions.")
    folder = results_folder(output, resume)
    work: list[tuple[Runner, list[Unit]]] = []
    for row in rows:
        for symbol, sizes in _sizes(row):
            for size in sizes:
                at_size = dataclasses.replace(options, sizes=((symbol, size),))
                work.append((Runner(at_size, folder), units([row], at_size)))
    finish(work, folder, resume, as_json)


def _sizes(row: SelectedRow) -> list[tuple[str, tuple[int, ...]]]:
    """Each symbol with its own size and the row's further ones, ascending."""
    assert row.config is not None
    sizes = row.config.sizes
    return [
        (symbol, tuple(sorted({sizes[symbol], *further})))
        for symbol, further in row.config.resolutions.items()
    ]


@click.command("overhead")
@run_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def overhead_command(as_json: bool, **given: object) -> None:
    """Time many tiny operators: where the device loses to the CPU, and why.

    Times are microseconds a call: the fixed cost of a call, launches, and the work itself.

    Exit codes: 0 measured, 1 a backend failed, 2 wrong usage.
    """
    from ocl_inductor.cli.console import console

    with usage_errors():
        from ocl_inductor.sweep.performance.overhead import crossings, explain
        from ocl_inductor.sweep.process.isolation import run_job
        from ocl_inductor.sweep.process.job import Job

        options = run_options_of({**given, "inference": True, "training": False})
    labels = tuple(b.label for b in options.backends if not b.is_eager)
    job = Job("overhead", backends=labels, repeat=options.repeat, threads=options.threads)
    outcome = run_job(
        job.as_json(), None, options.limits, lambda text: click.echo(f"  {text}", err=True)
    )
    lines = explain([e for e in outcome.events if e["event"] == "overhead"])
    failures = [e for e in outcome.events if e["event"] == "failed"]
    if as_json:
        value = {"status": outcome.status, "lines": [line.as_dict() for line in lines]}
        click.echo(json.dumps({**value, "failures": failures}, indent=1))
    else:
        for label in labels:
            table = _table("program", "size", "eager µs", "µs", "×", "launches", "fixed", "launch")
            for line in lines:
                if line.backend == label:
                    table.add_row(
                        f"{line.kind} of {line.count}",
                        str(line.elements),
                        *(_number(v) for v in (line.eager_us, line.backend_us, line.speedup)),
                        "–" if line.launches is None else str(line.launches),
                        *(_number(v) for v in (line.fixed_us, line.launch_us)),
                    )
            click.echo(label)
            console().print(table)
            for line in (x for x in lines if x.backend == label and x.reason):
                click.echo(
                    f"{line.kind} of {line.count} over {line.elements} elements is "
                    f"{1 / line.speedup:.1f} times slower than eager: mostly {line.reason}"
                )
        for backend, kind, count, size in crossings(lines):
            where = "at no size measured" if size is None else f"from {size} elements on"
            click.echo(f"{backend}: {kind} of {count} faster than eager {where}")
    if outcome.status != "ok" or failures:
        reasons = [outcome.message, *(f["message"] for f in failures)]
        click.echo("; ".join(filter(None, reasons)), err=True)
        raise SystemExit(1)
