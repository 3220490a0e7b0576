"""``ocl-inductor tune``: candidates of a model's kernels are measured, the best are kept."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocl_inductor.cli.console import console, plain_table, print_json
from ocl_inductor.cli.program import why_it_ended
from ocl_inductor.cli.target import TARGETS, runner
from ocl_inductor.cli.watching import progress, watching

if TYPE_CHECKING:
    from ocl_inductor.device.facts import DeviceInfo
    from ocl_inductor.tune.choice import TunedChoice

#: What a product is described with: rows of A, its columns, columns of B.
_SHAPE = re.compile(r"(\d+)[x×](\d+)[x×](\d+)")
#: Parameters of a template that say where operands lie, not how large the problem is.
_LAYOUT = re.compile(r"strides|offset|layout|order|acc|max_chain|k_part|k_chunk")

_HELP = f"""\
Measure the tile sizes of matrix products, convolutions and attention.

TARGET is one of

{TARGETS}
Each is compiled with mode="max-autotune": candidates whose numbers are wrong, or
that do not build, are out; of the others the fastest is kept, for this device and
these sizes. Compilations with that mode find it there. With --export the choices
that beat the default go to a file, which can be contributed (docs/adding.md).

\b
Exit codes: 0 fine; 1 the script or the model failed (what was measured until
then is kept and shown), or there was nothing to choose; 2 wrong usage.
"""


@click.command(help=_HELP)
@click.argument("target", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--shapes",
    metavar="MxKxN,...",
    help="Products instead of a TARGET: an input of M×K by a parameter of K×N, float32.",
)
@click.option("--train", is_flag=True, help="A model: also call backward() on its summed results.")
@click.option("--device", metavar="SPEC", help="The device, as in OCL_INDUCTOR_DEVICE.")
@click.option(
    "--export",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the choices that beat the default to this file.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def tune(
    target: str | None,
    args: tuple[str, ...],
    shapes: str | None,
    train: bool,
    device: str | None,
    export: Path | None,
    as_json: bool,
) -> None:
    if (target is None) == (shapes is None):
        raise click.UsageError("give a TARGET or --shapes, one of them")
    if shapes is not None:
        title, run = f"--shapes {shapes}", _products(_parsed(shapes))
    else:
        assert target is not None
        title, run = target, runner(target, args, train)
    os.environ["OCL_INDUCTOR_MODE"] = "max-autotune"
    if device is not None:
        os.environ["OCL_INDUCTOR_DEVICE"] = device
    info = _device()
    choices, failed = _measured(title, run)
    if export is not None:
        _export(export, info, title, choices)
    if as_json:
        print_json({"device": info.name, "choices": [_as_dict(c) for c in choices]})
    else:
        _show(choices, export)
    if failed or not choices:
        sys.exit(1)


def _parsed(shapes: str) -> list[tuple[int, int, int]]:
    found = [_SHAPE.fullmatch(text.strip()) for text in shapes.split(",")]
    sizes = [(int(m[1]), int(m[2]), int(m[3])) for m in found if m is not None]
    if len(sizes) != len(found) or any(0 in s for s in sizes):
        raise click.BadParameter(
            f"{shapes!r} is not like 512x768x3072,128x768x768", param_hint="--shapes"
        )
    return sizes


def _products(sizes: Sequence[tuple[int, int, int]]) -> Callable[[], None]:
    def run() -> None:
        import torch

        for m, k, n in sizes:
            torch._dynamo.reset()
            layer = torch.nn.Linear(k, n, bias=False).requires_grad_(False)
            torch.compile(layer, backend="opencl", dynamic=False)(torch.randn(m, k))

    return run


def _device() -> DeviceInfo:
    """The facts of the device that will be measured."""
    from ocl_inductor.device.select import select_device
    from ocl_inductor.settings import Settings

    settings = Settings.resolve()
    return select_device(settings.device).info.for_settings(settings)


def _measured(title: str, run: Callable[[], None]) -> tuple[list[TunedChoice], bool]:
    """Each choice once, and whether the user's code failed."""
    from ocl_inductor.observe.explain import observed
    from ocl_inductor.templates.contributed import problem
    from ocl_inductor.tune.choice import TunedChoice, log

    found: dict[str, TunedChoice] = {}
    with progress("measuring") as say:

        def told(choice: TunedChoice) -> None:
            key = problem(choice.template, choice.sizes)
            if key not in found:  # layers of a model are alike
                found[key] = choice
                say(f"{len(found)}: {_size(choice)}: {choice}")

        with observed(), watching(log, TunedChoice, told), contextlib.redirect_stdout(sys.stderr):
            failed = bool(why_it_ended(run, title))
    return [c for c in found.values() if c.seconds], failed


def _size(choice: TunedChoice) -> str:
    """The sizes of the problem, without how its operands lie."""
    told = {n: v for n, v in choice.sizes.items() if not _LAYOUT.search(n) and v not in ("()", "0")}
    return " ".join(f"{n}={v.replace(', ', ',')}" for n, v in told.items())


def _as_dict(choice: TunedChoice) -> dict[str, object]:
    return {
        "template": choice.template,
        "sizes": dict(choice.sizes),
        "choice": choice.choice,
        "default": choice.default,
        "gain": choice.gain,
        "gflop_s": choice.gflop_s,
        "seconds": dict(choice.seconds),
        "measured_before": choice.kept,
    }


def _show(choices: Sequence[TunedChoice], export: Path | None) -> None:
    if not choices:
        click.echo("no template here has anything to choose")
        return
    table = plain_table("template", "sizes", "choice", numbers=("of", "GFLOP/s", "gain"))
    for c in choices:
        choice = "default" if c.choice == c.default else c.choice
        row = (c.template, _size(c), choice, str(len(c.seconds)))
        table.add_row(*row, f"{c.gflop_s:.0f}", f"{c.gain:.2f}")
    console().print(table)
    better = sum(c.choice != c.default for c in choices)
    click.echo(f"{len(choices)} choices, {better} of them not the default")
    if export is not None:
        click.echo(f"wrote {better} to {export}")


def _export(path: Path, info: DeviceInfo, title: str, choices: Sequence[TunedChoice]) -> None:
    from ocl_inductor.templates.contributed import MeasuredOn, written

    better = [(c.template, c.sizes, c.choice, c.gain) for c in choices if c.choice != c.default]
    measured = f"{datetime.date.today()}, driver {info.driver_version}: ocl-inductor tune {title}"
    try:
        path.write_text(written(MeasuredOn.of(info), measured, better), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
