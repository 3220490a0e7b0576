"""Models of a checkout of the real TorchBench (github.com/pytorch/benchmark)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ocl_inductor.sweep.process.job import Job
from ocl_inductor.sweep.rows.inputs import cast
from ocl_inductor.sweep.rows.losses import mean_of_means
from ocl_inductor.sweep.rows.resolve import ModelLoadError
from ocl_inductor.sweep.vision_import import import_torchvision


@dataclass(frozen=True, slots=True)
class TorchBenchModel:
    """A ``torchbenchmark.models.<name>.Model`` as a subject: its module and example inputs.

    The loss is the mean over all results, and the optimiser SGD, as dynamobench has them.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def loss(self, outputs: object) -> torch.Tensor:
        return mean_of_means(outputs)

    def optimizer(self) -> torch.optim.Optimizer | None:
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        return torch.optim.SGD(parameters, lr=0.01) if parameters else None


def load_torchbench(job: Job, dtype: torch.dtype) -> TorchBenchModel:
    """
    Raises:
        ModelLoadError: the model's packages or data are missing, or it does not support the mode.
    """
    folder = str(Path(job.torchbench or "").resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    target = f"torchbenchmark.models.{job.name}:Model"
    test = "train" if job.mode == "training" else "eval"
    try:
        import_torchvision()
        module = importlib.import_module(f"torchbenchmark.models.{job.name}")
        made = module.Model(test=test, device="cpu", batch_size=job.batch_size)
        network, inputs = made.get_module()
    except Exception as error:  # anything a model's own code may raise
        reason = f"{type(error).__name__}: {error}"
        raise ModelLoadError(job.name, target, reason) from error
    network = network.to(dtype)
    if job.mode == "training":
        network.train()
    else:
        network.eval().requires_grad_(False)
    args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
    detached = pytree.tree_map(
        lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
    )
    args, kwargs = cast(detached, dtype)
    return TorchBenchModel(network, tuple(args), kwargs)
