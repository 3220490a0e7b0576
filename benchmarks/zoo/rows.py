"""Rows of the sweep as entries: what the benchmarks time beside the zoo's own."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.zoo.entry import Entry, Inputs
from ocl_inductor.sweep.rows.config import CONFIGS, load
from ocl_inductor.sweep.rows.inputs import make_inputs
from ocl_inductor.sweep.rows.resolve import resolve


def is_row(name: str) -> bool:
    """Whether ``torchbench_configs/`` has a row of this name."""
    return (CONFIGS / f"{name}.yaml").is_file()


def of_row(name: str) -> Entry:
    """The row ``name`` at its own sizes, as the sweep builds it in inference.

    Raises:
        ConfigError: the row is damaged.
    """
    config = load(CONFIGS / f"{name}.yaml")

    def build(small: bool) -> nn.Module:
        _refuse_small(small, name)
        module: nn.Module = resolve(config.constructor, name)(**config.arguments)
        return module

    def inputs(small: bool, batch: int, generator: torch.Generator) -> Inputs:
        _refuse_small(small, name)
        sizes = {**config.sizes, "B": batch}
        seed = generator.initial_seed()
        return Inputs(*make_inputs(config, "inference", sizes, torch.float32, seed))

    batch = config.batch.inference
    return Entry(name, build, inputs, "row", batch=batch, dynamo_config=config.dynamo)


def _refuse_small(small: bool, name: str) -> None:
    if small:
        raise ValueError(f"{name} is a row of the sweep, which has no small form")
