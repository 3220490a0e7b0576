"""``ocl-inductor sweep bisect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocl_inductor.cli.sweep.options import usage_errors

if TYPE_CHECKING:
    from ocl_inductor.sweep.bisect.bisect import Found, Tried
    from ocl_inductor.sweep.bisect.candidates import Candidates

METRICS = (
    "abs_latency", "speedup", "host_mib", "compression_ratio", "device_planned_mib",
    "first_call_cold_s", "first_call_warm_s", "launches", "fallbacks", "status",
)  # fmt: skip


@click.command("bisect")
@click.option("--good", required=True, metavar="REV", help="A commit or version that is fine.")
@click.option("--bad", required=True, metavar="REV", help="A later one that is not.")
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="The repository of the commits.",
)
@click.option("--setup", metavar="CMD", help="Shell command to run in each checkout, a build say.")
@click.option("--package", metavar="NAME", help="Search versions of this pip package instead.")
@click.option("--versions", metavar="V,V,…", help="Only these versions, instead of all of pip's.")
@click.option(
    "--metric",
    type=click.Choice(METRICS),
    default="abs_latency",
    show_default=True,
    help="What regressed; speedup cancels out a machine whose speed varies.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 10),
    default=0.07,
    show_default=True,
    help="Share by which the last must be worse than the first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.argument("run_arguments", metavar="-- RUN_ARGUMENTS", nargs=-1, required=True)
def bisect_command(
    good: str,
    bad: str,
    repo: Path,
    setup: str | None,
    package: str | None,
    versions: str | None,
    metric: str,
    threshold: float,
    as_json: bool,
    run_arguments: tuple[str, ...],
) -> None:
    """Find the first commit or version that made one model worse.

    RUN_ARGUMENTS are those of `sweep run` and must select one result, as the commands do that
    `sweep compare` prints: --only NAME --inference --performance --backend opencl.

    Exit codes: 0 the first bad one is named, 1 the last is no worse than the first, or only
    suspects are known, 2 wrong usage.
    """
    with usage_errors():
        from ocl_inductor.sweep.bisect.bisect import NoRegressionError, bisect
        from ocl_inductor.sweep.bisect.candidates import Commits, Versions
        from ocl_inductor.sweep.bisect.remeasure import measure_at

        candidates: Candidates
        if package is not None:
            listed = tuple(v.strip() for v in versions.split(",")) if versions else ()
            candidates = Versions(package, good, bad, listed)
        else:
            candidates = Commits(repo.resolve(), good, bad, setup)
        names = candidates.names()
        click.echo(f"{len(names) - 1} candidates after {candidates.describe(names[0])}", err=True)

        def said(tried: Tried) -> None:
            click.echo(_line(tried, candidates), err=True)

        try:
            found = bisect(
                names,
                lambda name: measure_at(candidates, name, run_arguments),
                metric,
                threshold,
                said,
            )
        except NoRegressionError as error:
            click.echo(str(error))
            raise SystemExit(1) from None
    _print(found, candidates, as_json)
    if len(found.suspects) > 1:
        raise SystemExit(1)


def _line(tried: Tried, candidates: Candidates) -> str:
    verdict = {True: "bad", False: "good", None: "skipped"}[tried.bad]
    values = ", ".join(v if isinstance(v, str) else f"{v:.4g}" for v in tried.values)
    text = f"  {verdict:8}{candidates.describe(tried.name)}"
    return text + (f": {values}" if values else f": {tried.message}")


def _print(found: Found, candidates: Candidates, as_json: bool) -> None:
    if as_json:
        described = {name: candidates.describe(name) for name in found.suspects}
        click.echo(json.dumps({**found.as_dict(), "descriptions": described}, indent=1))
        return
    if len(found.suspects) == 1:
        click.echo(f"First bad: {candidates.describe(found.suspects[0])}")
        return
    click.echo("One of these, which could not all be measured:")
    for name in found.suspects:
        click.echo(f"  {candidates.describe(name)}")
