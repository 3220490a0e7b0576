"""Rows of the sweep as entries: what the benchmarks time beside the zoo's own."""

from __future__ import annotations

import torch

from benchmarks.zoo.entry import Entry, Inputs
from ocl_inductor.sweep.rows.config import CONFIGS, load
from ocl_inductor.sweep.rows.inputs import make_inputs


def is_row(name: str) -> bool:
    """Whether ``torchbench_configs/`` has a row of this name."""
    return (CONFIGS / f"{name}.yaml").is_file()


def of_row(name: str) -> Entry:
    """The row ``name`` at its own sizes, as the sweep builds it in inference.

    Raises:
        ConfigError: the row is damaged.
    """
    config = load(CONFIGS / f"{name}.yaml")

    def inputs(small: bool, batch: int, generator: torch.Generator) -> Inputs:
        sizes = {**config.sizes, "B": batch}
        seed = generator.initial_seed()
        return Inputs(*make_inputs(config, "inference", sizes, torch.float32, seed))

    return Entry(
        name,
        "row",
        config.constructor,
        inputs,
        config.arguments,
        small=None,
        batch=config.batch.inference,
        dynamo_config=config.dynamo,
    )
