"""Check rows by running them eagerly: ``python -m ocl_inductor.sweep.rows.check [names]``.

For each row: the model builds, a forward pass at batch size 1 gives finite numbers, and so does
one training step where the row trains (at batch size 4 at most: batch norms refuse to train on one
value). One row at a time, freed before the next.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import torch
from torch.utils import _pytree as pytree

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.rows.build import BuiltModel, build
from ocl_inductor.sweep.rows.config import CONFIGS, load_all
from ocl_inductor.sweep.rows.losses import plain
from ocl_inductor.sweep.rows.schema import MODES, Mode, ModelConfig


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one row in one mode; ``problem`` is empty where all is well."""

    name: str
    mode: Mode
    problem: str
    seconds: float
    parameters: int
    largest: float  # of the absolute values of all results


def check(config: ModelConfig, mode: Mode) -> Checked:
    """Build the row, run it once in ``mode`` and look at the numbers."""
    batch_size = 1 if mode == "inference" else min(config.batch.training or 1, 4)
    start, parameters, largest = time.perf_counter(), 0, 0.0
    try:
        built = build(config, mode, batch_size=batch_size)
        parameters = sum(p.numel() for p in built.module.parameters())
        if mode == "inference":
            with torch.no_grad():
                outputs = built.forward()
            problem, largest = _look(outputs)
        else:
            problem, largest = _train(built)
    except (OpenCLInductorError, RuntimeError, ValueError, TypeError) as error:
        problem = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    return Checked(config.name, mode, problem, seconds, parameters, largest)


def _train(built: BuiltModel) -> tuple[str, float]:
    """One training step; the problem, if any, and the loss."""
    optimizer = built.optimizer()
    if optimizer is None:
        return "the row trains, but the module has no parameters", 0.0
    loss = built.loss(built.forward())
    if not loss.isfinite():
        return f"the loss is {loss.item()}", 0.0
    loss.backward()
    gradients = {n: p.grad for n, p in built.module.named_parameters() if p.grad is not None}
    if not gradients:
        return "no parameter has a gradient", 0.0
    if bad := [name for name, grad in gradients.items() if not grad.isfinite().all()]:
        return f"gradients are not finite: {', '.join(bad[:3])}", 0.0
    if not any(grad.count_nonzero() for grad in gradients.values()):
        return "all gradients are zero", 0.0
    optimizer.step()
    return "", loss.abs().item()


def _look(outputs: object) -> tuple[str, float]:
    """The first thing that is wrong with some results, if any, and their largest value."""
    leaves = [t for t in pytree.tree_leaves(plain(outputs)) if isinstance(t, torch.Tensor)]
    if not leaves:
        return "no tensor among the results", 0.0
    floats = [t for t in leaves if t.is_floating_point() and t.numel()]
    if any(not t.isfinite().all() for t in floats):
        return "results are not finite", 0.0
    if floats and not any(t.count_nonzero() for t in floats):
        return "all results are zero", 0.0
    several = [t for t in floats if t.numel() > 1]
    if several and all(t.std(correction=0) == 0 for t in several):
        return "all results are constant", 0.0
    return "", max((t.abs().max().item() for t in floats), default=0.0)


def check_all(rows: Sequence[ModelConfig], modes: Sequence[Mode]) -> Iterator[Checked]:
    """Check rows one after the other; unsupported ones are left out."""
    for config in rows:
        for mode in modes:
            if mode in config.modes and not config.unsupported:
                yield check(config, mode)
                gc.collect()


@click.command()
@click.argument("names", nargs=-1)
@click.option("--mode", type=click.Choice(MODES), multiple=True, help="Only this mode.")
@click.option("--configs", type=click.Path(path_type=Path), default=CONFIGS, help="Folder of rows.")
def main(names: tuple[str, ...], mode: tuple[Mode, ...], configs: Path) -> None:
    """Run rows of the sweep eagerly. Exit code 1 if one has a problem, 2 for a wrong row."""
    try:
        rows = load_all(configs, names or None)
    except OpenCLInductorError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    failed = 0
    for result in check_all(list(rows.values()), mode or MODES):
        failed += bool(result.problem)
        said = result.problem or f"{result.parameters / 1e6:.1f} M, largest {result.largest:.3g}"
        click.echo(f"{result.name:<36}{result.mode:<10}{result.seconds:7.1f} s  {said}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
