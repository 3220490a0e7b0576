"""What a measuring process runs: a row of the sweep, or a model of a TorchBench checkout."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from ocl_inductor.sweep.process.job import Job

SEED = 1337


class Subject(Protocol):
    """A model with one batch of inputs; ``build.BuiltModel`` is one."""

    @property
    def module(self) -> nn.Module: ...
    @property
    def args(self) -> tuple[Any, ...]: ...
    @property
    def kwargs(self) -> Mapping[str, Any]: ...
    def loss(self, outputs: object) -> torch.Tensor: ...
    def optimizer(self) -> torch.optim.Optimizer | None: ...


DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "amp": torch.float32,  # weights stay; autocast chooses operator by operator
}


def load_subject(job: Job, dtype: torch.dtype | None = None) -> Subject:
    """The job's model in the job's dtype, or in ``dtype``.

    Raises:
        ModelLoadError: it cannot be built.
    """
    wanted = dtype or DTYPES[job.dtype]
    if job.torchbench is not None:
        from ocl_inductor.sweep.rows.torchbench import load_torchbench

        return load_torchbench(job, wanted)
    if job.family:
        from ocl_inductor.sweep.families.build import load_family

        return load_family(job, wanted)
    from ocl_inductor.sweep.rows.build import build
    from ocl_inductor.sweep.rows.config import load

    return build(
        load(job.config_path),
        job.mode,
        batch_size=job.batch_size,
        dtype=wanted,
        seed=SEED,
        sizes=dict(job.sizes),
        dropout=job.what == "performance",
    )


def fresh(subject: Subject, place: str = "cpu") -> Subject:
    """A copy on a device that shares no tensor with ``subject``."""
    changes: dict[str, object] = {
        "module": copy.deepcopy(subject.module).to(place),
        "args": _copied(subject.args, place),
        "kwargs": _copied(dict(subject.kwargs), place),
    }
    if place != "cpu" and (target := getattr(subject, "target", None)) is not None:
        changes["target"] = _copied(target, place)
    return dataclasses.replace(subject, **changes)  # type: ignore[type-var]


def placed(subject: Subject, place: str) -> Subject:
    """``subject`` itself on the CPU, where it was built; elsewhere a copy."""
    return subject if place == "cpu" else fresh(subject, place)


def in_float64(job: Job, subject: Subject) -> Subject:
    """The same model, inputs and target in float64, sharing no tensor with ``subject``.

    From ``subject`` itself where that is in float32: converting is far cheaper than building it,
    which draws its weights anew and calibrates its norms.
    """
    from ocl_inductor.sweep.rows.inputs import cast

    if DTYPES[job.dtype] is not torch.float32:
        return load_subject(job, torch.float64)  # from float32, not from rounded weights
    wide = fresh(subject)
    changes = {"args": cast(wide.args, torch.float64), "kwargs": cast(wide.kwargs, torch.float64)}
    if (target := getattr(wide, "target", None)) is not None:
        changes["target"] = cast(target, torch.float64)
    wide.module.to(torch.float64)
    return dataclasses.replace(wide, **changes)  # type: ignore[type-var]


def _copied(value: object, place: str) -> object:
    return pytree.tree_map(
        lambda x: x.to(place, copy=True) if isinstance(x, torch.Tensor) else x, value
    )


def reset_seeds() -> None:
    """The random state every run begins with."""
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)


@contextlib.contextmanager
def casting(job: Job, place: str = "cpu") -> Iterator[None]:
    """Autocast to bfloat16 where the job says ``amp``, as PyTorch does on a device."""
    if job.dtype == "amp":
        with torch.autocast(place, dtype=torch.bfloat16):
            yield
    else:
        yield


def stepper(
    job: Job,
    subject: Subject,
    call: Callable[..., object],
    optimizer: torch.optim.Optimizer | None = None,
    place: str = "cpu",
) -> Callable[[], Any]:
    """One iteration: a forward pass without gradients, or a training step with the optimiser.

    Args:
        call: the subject's module, or its compiled form.
        optimizer: one that other steppers of the subject use as well; by default one is made.
        place: the device that the subject is on.
    """
    if job.mode == "inference":

        def infer() -> object:
            with torch.no_grad(), casting(job, place):
                return call(*subject.args, **subject.kwargs)

        return infer
    optimizer = optimizer or subject.optimizer()

    def train() -> torch.Tensor:
        if optimizer is not None:
            optimizer.zero_grad(set_to_none=True)
        with casting(job, place):
            loss = subject.loss(call(*subject.args, **subject.kwargs))
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss.detach()

    return train
