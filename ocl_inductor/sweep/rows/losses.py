"""The losses that a row may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ocl_inductor.sweep.rows.resolve import ModelLoadError, resolve
from ocl_inductor.sweep.rows.schema import Loss


def loss_of(spec: Loss, outputs: object, target: torch.Tensor | None, name: str) -> torch.Tensor:
    """The scalar loss of a model's ``outputs``; ``name`` is the row's, for error messages.

    Raises:
        ModelLoadError: ``spec`` does not fit what the model returns.
    """
    if spec.kind == "own":
        return _scalar(_pick(outputs, "loss") if _has(outputs, "loss") else outputs, spec, name)
    if spec.output is not None:
        if not _has(outputs, spec.output):
            raise ModelLoadError(name, "loss", f"the results have no {spec.output!r}")
        outputs = _pick(outputs, spec.output)
    if spec.kind == "mean":
        return mean_of_means(outputs)
    if spec.function is not None:
        function = resolve(spec.function, name)
        return _scalar(
            function(outputs) if target is None else function(outputs, target), spec, name
        )
    return _scalar(getattr(torch.nn.functional, spec.kind)(outputs, target), spec, name)


def mean_of_means(outputs: object) -> torch.Tensor:
    """The mean over the means of all floating-point tensors in a nest of results.

    dynamobench reduces results to a scalar like this where a benchmark has no loss of its own.
    """
    leaves = [
        leaf
        for leaf in pytree.tree_leaves(plain(outputs))
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel()
    ]
    return torch.stack([leaf.mean() for leaf in leaves]).mean()


def plain(value: object) -> Any:
    """The nest with transformers' ModelOutputs as dicts: not every one is a known container."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _has(outputs: object, key: int | str) -> bool:
    if isinstance(key, int):
        return isinstance(outputs, list | tuple) and -len(outputs) <= key < len(outputs)
    if isinstance(outputs, Mapping):
        return key in outputs
    return getattr(outputs, key, None) is not None and not isinstance(outputs, torch.Tensor)


def _pick(outputs: Any, key: int | str) -> object:
    if isinstance(key, int) or isinstance(outputs, Mapping):
        return outputs[key]
    return getattr(outputs, key)


def _scalar(value: object, spec: Loss, name: str) -> torch.Tensor:
    if not isinstance(value, torch.Tensor) or value.ndim != 0:
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        raise ModelLoadError(name, f"loss {spec.kind}", f"it is not a scalar but {shape}")
    return value
