"""What a command is told to run: a script, a function that makes a model, or a model's name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click

from ocl_inductor.cli.program import run_program

#: A model and its example inputs, as they are to be called.
Prepare: TypeAlias = Callable[[Any, Any], tuple[Callable[..., Any], Any]]

#: For a command's help.
TARGETS = """\
\b
  script.py [-- ARGS]   a script, run as `python script.py ARGS` would run it
  package.module:name   a function that returns (model, example_inputs)
  resnet50              a model of torchvision, with random weights and input
"""


def compiled(model: Any, inputs: Any) -> tuple[Callable[..., Any], Any]:
    """With this backend, on CPU tensors."""
    import torch

    return torch.compile(model, backend="opencl"), inputs


def on_ocl(model: Any, inputs: Any) -> tuple[Callable[..., Any], Any]:
    """Without torch.compile, on the device."""
    import torch

    import ocl_inductor.eager  # noqa: F401  (`ocl` is a device from here on)

    there = torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.to("ocl"), inputs)
    return model.to("ocl") if isinstance(model, torch.nn.Module) else model, there


def runner(
    target: str, args: tuple[str, ...], train: bool, prepare: Prepare = compiled
) -> Callable[[], None]:
    """What runs ``target``; ``train``: a model's backward pass too; ``prepare``: how a model is
    called.

    Raises:
        click.UsageError: there is no such thing.
    """
    if target.endswith(".py") or Path(target).is_file():
        if train:
            raise click.UsageError("--train is for a model; a script trains by itself")
        if not Path(target).is_file():
            raise click.UsageError(f"there is no file {target}")
        return lambda: run_program(Path(target), args)
    if args:
        raise click.UsageError(f"only a script takes arguments; {target!r} is not a .py file")
    build = _factory(target) if ":" in target else _torchvision(target)
    return lambda: _run_model(build, train, prepare)


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


def _run_model(build: Callable[[], tuple[Any, Any]], train: bool, prepare: Prepare) -> None:
    import torch

    made = build()
    try:
        model, inputs = made
    except (TypeError, ValueError):
        raise TypeError("the function must return (model, example_inputs)") from None
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    call, inputs = prepare(model, inputs)
    args, named = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), {})
    with torch.set_grad_enabled(train):
        result = call(*args, **named)
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
