"""What one iteration of a model gives, as named values that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from ocl_inductor.sweep.accuracy.on_disk import gradients_unloaded
from ocl_inductor.sweep.process.job import Mode
from ocl_inductor.sweep.rows.subject import Subject


def run_once(mode: Mode, subject: Subject, call: Callable[..., object]) -> dict[str, object]:
    """Run one forward pass, or one forward and backward pass, and collect what it gave.

    The gradients are taken from the parameters: of a large model there is no room for a copy, and
    each moves to disk as soon as it is complete. A parameter without one counts as one with a
    gradient of 0, as in dynamobench: a compiled backward pass gives 0 where a model's output is not
    in the loss, and eager gives nothing.
    """
    if mode == "inference":
        with torch.no_grad():
            return collect(call(*subject.args, **subject.kwargs))
    outputs = call(*subject.args, **subject.kwargs)
    loss = subject.loss(outputs)
    with gradients_unloaded(subject.module):
        loss.backward()
    found = {**collect(outputs), "loss": loss.detach().clone()}
    for name, parameter in subject.module.named_parameters():
        if parameter.grad is not None:
            found[f"grad of {name}"] = parameter.grad.detach()
            parameter.grad = None
        elif parameter.requires_grad:
            found[f"grad of {name}"] = parameter.detach().new_zeros(()).expand_as(parameter)
    for name, buffer in subject.module.named_buffers():
        found[f"buffer {name}"] = buffer.detach().clone()
    return found


def at_home(value: object) -> object:
    """A tensor on the CPU; anything else as it is."""
    return value.cpu() if isinstance(value, torch.Tensor) else value


def collect(value: object, path: str = "out") -> dict[str, object]:
    """Every tensor and number of a nest of results by its path; tensors are copies."""
    return dict(_leaves(value, path))


def _leaves(value: object, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.Tensor):
        yield path, (value.to_dense() if value.is_sparse else value).detach().clone()
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, bool | int | float | str) or value is None:
        yield path, value
    elif isinstance(value, torch.distributions.Distribution):
        for name in value.arg_constraints:
            yield from _leaves(getattr(value, name), f"{path}.{name}")
    # Caches of generation and other objects hold no result of their own.
