"""Building a row: module, example inputs, loss and optimiser, the same for a seed every time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from ocl_inductor.sweep.rows.inputs import make_inputs, make_tensor, to_device
from ocl_inductor.sweep.rows.losses import loss_of
from ocl_inductor.sweep.rows.resolve import ModelLoadError, resolve
from ocl_inductor.sweep.rows.schema import Mode, ModelConfig
from ocl_inductor.sweep.rows.weights import batch_norms, calibrate, enliven, without_dropout

# The calibration of batch norms wants samples enough for layers with one pixel left; an input as
# large as this leaves many pixels, and one sample does.
_CALIBRATION_BATCH = 4
_LARGE_INPUT = 300_000


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """A row that can run.

    Attributes:
        module: in eval mode without gradients for inference, in train mode for training.
        args, kwargs: one batch of example inputs.
        target: what the loss compares with, or None.
        sizes: what the symbols of the input shapes stand for, ``B`` included.
    """

    config: ModelConfig
    mode: Mode
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    target: torch.Tensor | None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def forward(self) -> Any:
        """The module's results for the example inputs."""
        return self.module(*self.args, **self.kwargs)

    def loss(self, outputs: object) -> torch.Tensor:
        """The scalar that training minimises."""
        return loss_of(self.config.loss, outputs, self.target, self.config.name)

    def optimizer(self) -> torch.optim.Optimizer | None:
        """A fresh optimiser over the module's parameters; None where there are none."""
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        if not parameters:
            return None
        spec = self.config.optimizer
        optimizer: torch.optim.Optimizer = getattr(torch.optim, spec.name)(
            parameters, **spec.arguments
        )
        return optimizer


def build(
    config: ModelConfig,
    mode: Mode = "inference",
    *,
    batch_size: int | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: int = 1337,
    sizes: Mapping[str, int] | None = None,
    dropout: bool = True,
) -> BuiltModel:
    """The model of a row with one batch of inputs.

    Weights and inputs are drawn in float32 and then converted, so that builds which differ in
    ``dtype`` only hold the same numbers but for rounding. The global random states are as before
    afterwards.

    Args:
        batch_size: the row's own for ``mode`` if None.
        sizes: other values for symbols of the row's ``sizes``.
        dropout: False sets all dropout probabilities to 0.

    Raises:
        ModelLoadError: the constructor is missing or raises, or the row is unsupported.
    """
    if config.unsupported:
        raise ModelLoadError(config.name, config.constructor, config.why["status"])
    if batch_size is None:
        batch_size = config.batch.inference if mode == "inference" else config.batch.training or 1
    own = config.training_sizes if mode == "training" else {}
    values = {**config.sizes, **own, **(sizes or {}), "B": batch_size}
    constructor = resolve(config.constructor, config.name)
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            random.seed(seed)
            np.random.seed(seed % 2**32)
            torch.manual_seed(seed)
            module = _construct(config, constructor)
            enliven(module)
            _settle(config, mode, module, values, seed)
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
    module.to(device=device, dtype=dtype)
    if not dropout:
        without_dropout(module)
    args, kwargs = to_device(make_inputs(config, mode, values, dtype, seed), torch.device(device))
    target = None
    if mode == "training" and config.loss.target is not None:
        generator = torch.Generator().manual_seed(seed + 1)
        target = make_tensor(config.loss.target, values, dtype, generator).to(device)
    return BuiltModel(config, mode, module, args, kwargs, target, values)


def _construct(config: ModelConfig, constructor: Any) -> nn.Module:
    try:
        module = constructor(**config.arguments)
    except Exception as error:  # anything a package may raise: a sweep reports it and goes on
        reason = f"{type(error).__name__}: {error}"
        raise ModelLoadError(config.name, config.constructor, reason) from error
    if not isinstance(module, nn.Module):
        raise ModelLoadError(config.name, config.constructor, f"it made a {type(module).__name__}")
    return module


def _settle(
    config: ModelConfig, mode: Mode, module: nn.Module, sizes: Mapping[str, int], seed: int
) -> None:
    """Put the module into its mode; norms that will not train get the statistics of a batch."""
    module.train()
    norms = batch_norms(module)
    if mode == "training":  # only those that stay as they are in training, too
        norms = [norm for norm in norms if not norm.training]
    module.eval()
    if norms:
        args, kwargs = make_inputs(config, "inference", {**sizes, "B": 1}, torch.float32, seed + 2)
        leaves = pytree.tree_leaves((args, kwargs))
        if sum(t.numel() for t in leaves if isinstance(t, torch.Tensor)) < _LARGE_INPUT:
            batch = {**sizes, "B": _CALIBRATION_BATCH}
            args, kwargs = make_inputs(config, "inference", batch, torch.float32, seed + 2)
        calibrate(module, lambda: module(*args, **kwargs), norms)
    if mode == "training":
        module.train()
    else:
        module.requires_grad_(False)
