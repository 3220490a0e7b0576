"""``ocl-inductor prebuild``: the kernels of eager operators on ``ocl``, before they are needed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocl_inductor.cli.console import print_json
from ocl_inductor.cli.program import why_it_ended
from ocl_inductor.cli.target import TARGETS, on_ocl, runner
from ocl_inductor.cli.watching import progress, watching

if TYPE_CHECKING:
    from ocl_inductor.eager.prebuild.told import OperatorGraph

_HELP = f"""\
Build the kernels of operators on `ocl` tensors, so that programs find them on disk.

TARGET is one of

{TARGETS}
A model is called on `ocl` as it is, without torch.compile; a script does what it
does. Each operator outside of compiled functions is a graph of its own there,
which takes 0.1 to 0.4 s when it is first called with tensors of some form. With
--list calls come from a file instead: what --export wrote on another machine.

\b
Exit codes: 0 fine; 1 the script or the model failed, or a line of the list did
(what was built until then is kept); 2 wrong usage.
"""


@click.command(help=_HELP)
@click.argument("target", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--list",
    "listed",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Calls of operators instead of a TARGET, one on each line.",
)
@click.option("--train", is_flag=True, help="A model: also call backward() on its summed results.")
@click.option("--device", metavar="SPEC", help="The device, as in OCL_INDUCTOR_DEVICE.")
@click.option(
    "--export",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the calls that have a graph to this file, for --list.",
)
@click.option("--json", "as_json", is_flag=True, help="Every call, as JSON.")
def prebuild(
    target: str | None,
    args: tuple[str, ...],
    listed: Path | None,
    train: bool,
    device: str | None,
    export: Path | None,
    as_json: bool,
) -> None:
    if (target is None) == (listed is None):
        raise click.UsageError("give a TARGET or --list, one of them")
    if device is not None:
        os.environ["OCL_INDUCTOR_DEVICE"] = device
    if target is not None:
        title, run = target, runner(target, args, train, on_ocl)
    else:
        assert listed is not None
        title, run = str(listed), partial(_calls, listed.read_text(encoding="utf-8"))
    if _runs_in_place():
        if as_json:
            print_json({"in_place": True, "calls": []})
            return
        click.echo(
            "This device works in the host's memory: operators run there by PyTorch's own CPU "
            "kernels, and there is nothing to build."
        )
        return
    found, failed = _built(title, run)
    if export is not None:
        lines = dict.fromkeys(g.line for g in found if g.line and not g.on_host)
        export.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if as_json:
        print_json({"in_place": False, "calls": [dataclasses.asdict(g) for g in found]})
    else:
        _show(found)
    if failed:
        sys.exit(1)


def _runs_in_place() -> bool:
    import ocl_inductor.eager  # noqa: F401  (`ocl` is a device from here on)
    from ocl_inductor.resident.places import place
    from ocl_inductor.resident.tensors import in_place

    return in_place(place())


def _calls(text: str) -> None:
    """Make each call of a list. One that fails is told, and the others are made.

    Raises:
        SystemExit: with a message, if any did.
    """
    import torch

    from ocl_inductor.eager.prebuild.call_lines import call_of_line

    failed = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            with torch.no_grad():
                call_of_line(line, torch.device("ocl"))()
        except Exception as error:  # eager's own about the arguments, too
            failed += 1
            click.echo(f"line {number}: {next(iter(str(error).splitlines()), '')}", err=True)
    if failed:
        sys.exit(f"{failed} lines could not be called")


def _built(title: str, run: Callable[[], None]) -> tuple[list[OperatorGraph], bool]:
    """All graphs that were asked for, and whether the user's code failed."""
    from ocl_inductor.eager.prebuild.told import OperatorGraph, log

    found: list[OperatorGraph] = []
    with progress("building") as say:

        def told(graph: OperatorGraph) -> None:
            found.append(graph)
            say(f"{len(found)}: {graph}")

        with watching(log, OperatorGraph, told), contextlib.redirect_stdout(sys.stderr):
            failed = bool(why_it_ended(run, title))
    return found, failed


def _show(found: list[OperatorGraph]) -> None:
    host = [g for g in found if g.on_host]
    kept = [g for g in found if g.kept]
    new = [g for g in found if not g.on_host and not g.kept]
    seconds = sum(g.seconds for g in new)
    click.echo(
        f"{len(new)} built in {seconds:.1f} s, {len(kept)} were there, {len(host)} run on the host"
    )
