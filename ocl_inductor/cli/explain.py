"""``ocl-inductor explain``: what becomes of a script or a model, and why."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocl_inductor.cli.program import why_it_ended
from ocl_inductor.cli.target import TARGETS, runner

if TYPE_CHECKING:
    from ocl_inductor.observe.report.report import Report

_HELP = f"""\
TARGET is one of

{TARGETS}
Every torch.compile(..., backend="opencl") of a script is observed. What it
prints goes to standard error. Its own arguments follow `--`.

\b
Exit codes: 0 fine; 1 the script or the model failed (what was seen until then
is shown), or nothing was compiled; 2 wrong usage.
"""


@click.command(
    help="Show graphs, breaks, kernels, refused fusions, fallbacks and memory plan.\n\n" + _HELP,
)
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write one self-contained HTML page there.",
)
@click.option(
    "--target",
    "described",
    metavar="NAME",
    help="Compile as for a device that need not be present: a name, or a YAML file of facts.",
)
@click.option("--train", is_flag=True, help="A model: also call backward() on its summed results.")
def explain(
    target: str,
    args: tuple[str, ...],
    as_json: bool,
    page: Path | None,
    described: str | None,
    train: bool,
) -> None:
    if described is not None:
        _compile_for(described)
    run = runner(target, args, train)
    title = Path(target).name if target.endswith(".py") else target
    report = _observe(title, run)
    if page is not None:
        try:
            page.write_text(report.html(), encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"cannot write {page}: {error.strerror}") from None
    if as_json:
        click.echo(report.to_json())
    elif page is None and sys.stdout.isatty():
        from rich.console import Console

        from ocl_inductor.observe.report.text import renderable

        Console(highlight=False).print(renderable(report))
    elif page is None:
        click.echo(report.text(), nl=False)
    else:
        click.echo(f"wrote {page}")
    if report.error or not report.graphs:
        sys.exit(1)


def _compile_for(described: str) -> None:
    """Let whatever is compiled from now on be for this target."""
    from ocl_inductor.errors import OpenCLInductorError
    from ocl_inductor.settings import Settings

    os.environ["OCL_INDUCTOR_TARGET"] = described
    try:
        Settings.resolve()
    except OpenCLInductorError as error:
        raise click.ClickException(str(error)) from None


def _observe(title: str, run: Callable[[], None]) -> Report:
    from ocl_inductor.observe.explain import observed

    with observed() as seen, contextlib.redirect_stdout(sys.stderr):
        error = why_it_ended(run, title)
    return seen.report(title, error)
