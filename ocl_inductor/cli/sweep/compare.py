"""``ocl-inductor sweep compare``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocl_inductor.cli.sweep.options import usage_errors

if TYPE_CHECKING:
    from ocl_inductor.sweep.record import SweepResults
    from ocl_inductor.sweep.report.compare import Comparison

RESULTS = click.Path(exists=True, path_type=Path)


@click.command("compare")
@click.argument("before", metavar="A", type=RESULTS)
@click.argument("after", metavar="B", type=RESULTS)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 10),
    default=0.07,
    show_default=True,
    help="Share by which time or memory may grow.",
)
@click.option("--compile-times", is_flag=True, help="Compare first calls too.")
@click.option(
    "--confirm",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Measure what regressed again, up to N times, before believing it. Runs the models with "
    "what is installed here, which should be B.",
)
@click.option("--yaml", "yaml_file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--markdown", "markdown_file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of Markdown.")
def compare_command(
    before: Path,
    after: Path,
    threshold: float,
    compile_times: bool,
    confirm: int,
    yaml_file: Path | None,
    markdown_file: Path | None,
    as_json: bool,
) -> None:
    """Compare two sweeps: regressions of time and memory, statuses, new and missing models.

    A and B are folders of `sweep run`, or their results.jsonl. Markdown goes to standard output.

    Exit codes: 0 B is no worse, 1 something regressed, broke or is missing, 2 wrong usage.
    """
    with usage_errors():
        from ocl_inductor.sweep.record import read_results
        from ocl_inductor.sweep.report.compare import compare, markdown

        old, new = read_results(before), read_results(after)
        found = compare(old, new, threshold, compile_times)
        for _ in range(confirm):
            if not found.regressions:
                break
            found = _again(found, old, new, threshold, compile_times)
    text = markdown(found, str(before), str(after))
    if yaml_file is not None:
        import yaml

        yaml_file.write_text(yaml.safe_dump(found.as_dict(), sort_keys=False), encoding="utf-8")
    if markdown_file is not None:
        markdown_file.write_text(text, encoding="utf-8")
    click.echo(json.dumps(found.as_dict(), indent=1) if as_json else text.rstrip())
    if found.found_problem:
        raise SystemExit(1)


def _again(
    found: Comparison, old: SweepResults, new: SweepResults, threshold: float, compile_times: bool
) -> Comparison:
    """Measure the models of the regressions again, and keep those that show again."""
    from ocl_inductor.sweep.bisect.remeasure import remeasure
    from ocl_inductor.sweep.report.compare import compare, confirm

    keys = tuple(dict.fromkeys(change.key for change in found.regressions))
    click.echo(f"Measuring {len(keys)} again.", err=True)
    fresh = remeasure(new, keys)
    return confirm(found, compare(old, fresh, threshold, compile_times))
