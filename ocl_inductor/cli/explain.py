"""``ocl-inductor explain``: what becomes of a script or a model, and why."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocl_inductor.cli.program import run_program, why_it_ended

if TYPE_CHECKING:
    from ocl_inductor.observe.report.report import Report

_HELP = """\
TARGET is one of

\b
  script.py [-- ARGS]   a script, run as `python script.py ARGS` would run it;
                        every torch.compile(..., backend="opencl") is observed
  package.module:name   a function that returns (model, example_inputs)
  resnet50              a model of torchvision, with random weights and input

What the script prints goes to standard error. Its own arguments follow `--`.

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
    run = _runner(target, args, train)
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


# -- what to run -------------------------------------------------------------------------------


def _runner(target: str, args: tuple[str, ...], train: bool) -> Callable[[], None]:
    if target.endswith(".py") or Path(target).is_file():
        if train:
            raise click.UsageError("--train is for a model; a script trains by itself")
        if not Path(target).is_file():
            raise click.UsageError(f"there is no file {target}")
        return lambda: run_program(Path(target), args)
    if args:
        raise click.UsageError(f"only a script takes arguments; {target!r} is not a .py file")
    build = _factory(target) if ":" in target else _torchvision(target)
    return lambda: _run_model(build, train)


def _factory(target: str) -> Callable[[], tuple[object, object]]:
    name, _, attribute = target.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does, so that a module beside the user is found
    try:
        found: object = importlib.import_module(name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise click.UsageError(f"cannot import {target}: {error}") from None
    if not callable(found):
        raise click.UsageError(f"{target} is not a function that returns (model, example_inputs)")
    return found


def _torchvision(name: str) -> Callable[[], tuple[object, object]]:
    try:
        from ocl_inductor.sweep.vision_import import import_torchvision

        import_torchvision()
        from torchvision import models
    except ImportError:
        raise click.UsageError(
            f"{name!r} is neither a .py file nor package.module:function; for the models of "
            "torchvision, install it"
        ) from None
    if name not in models.list_models():
        import difflib

        close = difflib.get_close_matches(name, models.list_models(), n=3)
        hint = f"; near it: {', '.join(close)}" if close else ""
        raise click.UsageError(
            f"{name!r} is neither a .py file, nor package.module:function, nor a model of "
            f"torchvision{hint}"
        )

    def build() -> tuple[object, object]:
        import torch

        return models.get_model(name, weights=None).eval(), (torch.randn(1, 3, 224, 224),)

    return build


def _run_model(build: Callable[[], tuple[Any, Any]], train: bool) -> None:
    import torch

    made = build()
    try:
        model, inputs = made
    except (TypeError, ValueError):
        raise TypeError("the function must return (model, example_inputs)") from None
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    args, named = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), {})
    compiled = torch.compile(model, backend="opencl")
    with torch.set_grad_enabled(train):
        result = compiled(*args, **named)
    if train:
        leaves = torch.utils._pytree.tree_leaves(
            dict(result) if hasattr(result, "keys") else result
        )
        total = sum(
            x.float().sum() for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad
        )
        if not isinstance(total, torch.Tensor):
            raise ValueError("--train: no result of the model depends on a parameter")
        total.backward()
