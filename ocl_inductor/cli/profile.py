"""``ocl-inductor profile``: run a script and show where the time of its compiled graphs goes."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from ocl_inductor.cli.console import console, print_json
from ocl_inductor.cli.program import run_program, why_it_ended


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a Chrome trace; its times line up with torch.profiler's.",
)
@click.option(
    "--rows", default=20, show_default=True, type=click.IntRange(1), help="Kernels shown."
)
@click.option(
    "--sort",
    default="time",
    show_default=True,
    type=click.Choice(("time", "memory", "launches")),
    help="What kernels are ranked by: time, bytes read and written, or launches.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def profile(
    script: Path,
    arguments: tuple[str, ...],
    trace: Path | None,
    rows: int,
    sort: str,
    as_json: bool,
) -> None:
    """Run SCRIPT and show the time of each kernel of its compiled graphs.

    Options come before SCRIPT; what follows it is passed on. The script's own output goes to
    standard error. Shares are of the time from the first call of a compiled graph to the end of the
    last one, without compilation.

    \b
    Exit codes: 0 fine; 1 the script failed (what ran until then is shown), or
    no compiled graph ran; 2 wrong usage.
    """
    if trace is not None and not trace.absolute().parent.is_dir():
        raise click.BadParameter(
            f"there is no folder {trace.absolute().parent}", param_hint="--trace"
        )
    # torch takes seconds to import; wrong usage has been told by now.
    from ocl_inductor.observe.profiler import profile as profiling

    with profiling() as result, contextlib.redirect_stdout(sys.stderr):
        failed = bool(why_it_ended(lambda: run_program(script, arguments), str(script)))
    shares = result.breakdown_of_calls
    if as_json:
        print_json({"script": str(script), "failed": failed, **result.as_dict(shares)})
    else:
        from ocl_inductor.observe.profiler.table import report, text

        out = console()
        if out.is_terminal:
            out.print(report(result, shares, rows, sort))
        else:
            click.echo(text(result, shares, out.width, rows, sort))
    if trace is not None:
        try:
            result.export_chrome_trace(trace)
        except OSError as error:
            raise click.ClickException(f"cannot write {trace}: {error.strerror}") from None
    if failed or not result.calls:
        sys.exit(1)
