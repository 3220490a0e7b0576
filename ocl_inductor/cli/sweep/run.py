"""``ocl-inductor sweep run``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

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
    from ocl_inductor.sweep.record import Record
    from ocl_inductor.sweep.run.options import RunOptions
    from ocl_inductor.sweep.run.runner import Runner, Unit


@click.command("run")
@selection_options
@mode_options
@click.option("--accuracy", is_flag=True, help="Compare results with eager's and float64's.")
@click.option("--performance", is_flag=True, help="Measure time, memory and compile time.")
@click.option("--loss-curve", is_flag=True, help="In training: also compare ten steps' losses.")
@run_options
@click.option(
    "--cold-start-latency",
    "cold_start",
    is_flag=True,
    help="Every process starts with empty caches, and compilation_latency says so.",
)
@click.option(
    "--output",
    type=FOLDER,
    metavar="FOLDER",
    help="For results; default: sweep-results/<time>.",
)
@click.option("--resume", is_flag=True, help="Go on where the sweep in --output stopped.")
@click.option("--dry-run", is_flag=True, help="List what would run, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON lines.")
def run_command(
    accuracy: bool,
    performance: bool,
    loss_curve: bool,
    cold_start: bool,
    output: Path | None,
    resume: bool,
    dry_run: bool,
    as_json: bool,
    **given: object,
) -> None:
    """Run models, each in processes of its own, and write results.

    Without --accuracy and --performance, both (with --families accuracy). FOLDER receives
    results.jsonl while it runs, then dynamobench's CSV tables, results.csv, metrics.json and
    report.html.

    Exit codes: 0 every model did what its row says, 1 one did not, 2 wrong usage.
    """
    with usage_errors():
        from ocl_inductor.sweep.run.runner import units

        given_families = given["families"] is not None
        rows = selection_of(given).rows()
        both = accuracy == performance
        if given_families:
            if performance or given["training"]:
                raise click.UsageError("--families checks accuracy of inference alone.")
            accuracy, both = True, False
        whats = ("accuracy",) * (accuracy or both) + ("performance",) * (performance or both)
        options = run_options_of(given, whats=whats, cold_start=cold_start, loss_curve=loss_curve)
    todo = units(rows, options)
    if not todo:
        raise click.UsageError("No model is selected.")
    if dry_run:
        _list(todo, options, as_json)
        return
    from ocl_inductor.sweep.run.runner import Runner

    folder = results_folder(output, resume)
    finish([(Runner(options, folder), todo)], folder, resume, as_json)


def _list(todo: list[Unit], options: RunOptions, as_json: bool) -> None:
    from ocl_inductor.sweep.run.runner import backends_of

    for unit in todo:
        backends = backends_of(unit, options)
        expected = unit.row.expected(unit.mode)
        batch = options.batch_for(unit.row, unit.mode, unit.what)
        if as_json:
            value = {
                "name": unit.row.name,
                "domain": unit.row.domain,
                "mode": unit.mode,
                "what": unit.what,
                "batch_size": batch,
                "backends": [b.label for b in backends],
                "expected": expected,
                "reproduce": options.command(unit.row, unit.mode, unit.what, backends[-1]),
            }
            click.echo(json.dumps(value))
        else:
            names = " ".join(b.label for b in backends)
            note = "" if expected == "pass" else f"  (expected: {expected})"
            click.echo(f"{unit.title}  batch {batch}  {names}{note}")


def results_folder(output: Path | None, resume: bool) -> Path:
    """The folder for results.

    Raises:
        click.UsageError: it has results of a sweep that is not to be resumed, or damaged ones.
    """
    from ocl_inductor.sweep.record import FILE_NAME, read_results

    folder = output or Path("sweep-results", time.strftime("%Y%m%d-%H%M%S"))
    file = folder / FILE_NAME
    if not file.exists():
        return folder
    if not resume:
        raise click.UsageError(
            f"{file} is there already: --resume goes on with it, --output names another."
        )
    with usage_errors():
        read_results(file)  # a damaged file is wrong usage now, not a crash after hours
    return folder


def finish(
    work: list[tuple[Runner, list[Unit]]], folder: Path, resume: bool, as_json: bool
) -> None:
    """Run all units, write every output and print the summary; ends with the exit code."""
    from ocl_inductor.cli.sweep.progress import watch
    from ocl_inductor.sweep.record import FILE_NAME, read_results
    from ocl_inductor.sweep.report.tables import write_outputs

    interrupted = False
    with watch(sum(len(units) for _, units in work)) as watcher:
        try:
            for index, (runner, units) in enumerate(work):
                runner.run(units, watcher, resume=resume or index > 0, header=index == 0)
        except KeyboardInterrupt:
            interrupted = True
    file = folder / FILE_NAME
    if not file.exists():
        raise SystemExit(130)
    results = read_results(file)
    written = write_outputs(results, folder)
    keys = {key for runner, units in work for unit in units for key in runner.keys(unit)}
    records = [r for r in results.records if r.key in keys]
    if as_json:
        for record in records:
            click.echo(json.dumps(record.as_json()))
    else:
        _summarise(records)
        names = ", ".join(path.name for path in (file, *written))
        click.echo(f"Written to {folder}: {names}", err=True)
    if interrupted:
        click.echo(f"Interrupted; go on with: --output {folder} --resume", err=True)
        raise SystemExit(130)
    if any(is_problem(record) for record in records):
        raise SystemExit(1)


def is_problem(record: Record) -> bool:
    """Whether a model did worse than its row says; a family without eager's result is none."""
    from ocl_inductor.sweep.families.coverage import is_counted, is_family

    if is_family(record) and not is_counted(record):
        return False
    return not record.status.good and str(record.status) != record.expected


def _summarise(records: list[Record]) -> None:
    from ocl_inductor.cli.console import console
    from ocl_inductor.cli.sweep.console import results_table, summary_lines
    from ocl_inductor.sweep.families.coverage import coverage_lines

    screen = console()
    screen.print(results_table(records))
    for line in (*summary_lines(records), *coverage_lines(records)):
        screen.print(line, markup=False, highlight=False, soft_wrap=True)
