"""``ocl-inductor sweep list`` and ``report``: what there is, without running anything."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ocl_inductor.cli.sweep.options import FOLDER, selection_of, selection_options, usage_errors


@click.command("list")
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line a model.")
def list_command(as_json: bool, **given: object) -> None:
    """List the models a sweep would run.

    Exit codes: 0 listed, 2 wrong usage.
    """
    with usage_errors():
        rows = selection_of(given).rows()
    for row in rows:
        config = row.config
        if as_json:
            fields = {} if config is None else config.model_dump(mode="json")
            click.echo(json.dumps({"name": row.name, "domain": row.domain, **fields}))
            continue
        modes = "both" if config is None or len(config.modes) == 2 else config.modes[0]
        notes = [] if config is None else [k for k in ("status", "metric") if k in config.why]
        text = f"{row.name:36} {row.domain:24} {modes:10} {' '.join(notes)}"
        click.echo(text.rstrip())


@click.command("report")
@click.argument("results", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--output", type=FOLDER, metavar="FOLDER", help="For the files; default: where RESULTS is."
)
@click.option("--json", "as_json", is_flag=True, help="Print the paths as JSON.")
def report_command(results: Path, output: Path | None, as_json: bool) -> None:
    """Write the CSV tables, metrics.json and report.html of a sweep anew.

    RESULTS is a folder of `sweep run`, or its results.jsonl.

    Exit codes: 0 written, 2 wrong usage.
    """
    with usage_errors():
        from ocl_inductor.sweep.record import read_results
        from ocl_inductor.sweep.report.tables import write_outputs

        found = read_results(results)
    folder = output or (results if results.is_dir() else results.parent)
    written = [str(path) for path in write_outputs(found, folder)]
    click.echo(json.dumps(written) if as_json else "\n".join(written))
