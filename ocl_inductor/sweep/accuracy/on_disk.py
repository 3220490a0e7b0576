"""Keeps results of large models on disk: gigabytes of gradients each, of eager, backend, float64.

A tensor moves into a mapped file without a name, which is removed with the tensor. Its pages are in
memory while they are in use; the system may evict them at any time.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator

import torch
from torch import nn

#: Results of at least as many bytes move to disk; such a model has parameters of as many.
MANY_BYTES = 1 << 30
#: Tensors of fewer bytes stay in memory: a file each would be thousands of files for little.
FEW_BYTES = 1 << 20


def bytes_of(values: Iterable[object]) -> int:
    """The bytes of the tensors among ``values``."""
    return sum(value.nbytes for value in values if isinstance(value, torch.Tensor))


def unloaded(named: dict[str, object]) -> dict[str, object]:
    """The same values, which take no memory while they are not read, if they are large."""
    if bytes_of(named.values()) < MANY_BYTES:
        return named
    return {name: _on_disk(value) for name, value in named.items()}


@contextlib.contextmanager
def gradients_unloaded(module: nn.Module) -> Iterator[None]:
    """Gradients of a large module on the CPU move to disk one by one, as soon as each is complete.
    Those of another device are in its memory."""
    parameters = [p for p in module.parameters() if p.requires_grad and p.device.type == "cpu"]
    if bytes_of(parameters) < MANY_BYTES:
        yield
        return
    hooks = [p.register_post_accumulate_grad_hook(_unload_gradient) for p in parameters]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _unload_gradient(parameter: torch.Tensor) -> None:
    parameter.grad = _on_disk(parameter.grad)


def _on_disk(value: object) -> object:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    storage = value.untyped_storage()
    if storage.nbytes() < FEW_BYTES or storage.filename is not None:
        return value
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        mapped = torch.from_file(
            os.path.join(folder, "tensor"), shared=True, size=value.numel(), dtype=value.dtype
        )
    return mapped.view(value.shape).copy_(value)
