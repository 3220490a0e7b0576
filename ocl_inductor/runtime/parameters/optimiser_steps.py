"""Notifies watches of parameters of each optimiser step.

``SGD``, ``Adam``, ``AdamW`` and ``Adagrad`` with ``fused=True`` write parameters without a new
version, as optimisers do that write ``p.data``. All subclasses of ``Optimizer`` run hooks.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterator
from typing import Protocol

import torch
from torch.optim.optimizer import Optimizer
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ocl_inductor.patches.pytorch.optimiser_steps import after_each_step


class Watching(Protocol):
    """Something that depends on parameters. ``storages``: addresses of their storages."""

    storages: frozenset[int]

    def note_write(self) -> None:
        """Some of them were written."""


_watching: weakref.WeakSet[Watching] = weakref.WeakSet()
_lock = threading.Lock()


def tell_of_steps(watching: Watching) -> None:
    """From now on, call ``note_write`` after each step that wrote parameters it depends on."""
    _register()
    with _lock:
        _watching.add(watching)


@functools.cache
def _register() -> None:
    after_each_step(_after_step)


def _after_step(optimiser: Optimizer, args: object, kwargs: object) -> None:
    with _lock:
        untold = list(_watching)
    storages = _storages(optimiser)
    seen: set[int] = set()
    while untold:  # mostly done after the first parameter
        storage = next(storages, None)
        if storage is None:
            return
        if storage in seen:
            continue
        seen.add(storage)
        for watching in [w for w in untold if storage in w.storages]:
            watching.note_write()
            untold.remove(watching)


def _storages(optimiser: Optimizer) -> Iterator[int]:
    """Addresses of the storages of its parameters."""
    for group in optimiser.param_groups:
        for p in group["params"]:
            if isinstance(p, torch.Tensor):
                yield from map(storage_address, filter(_lies_here, _plain(p)))


def _plain(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """The plain tensors of a parameter: itself, or those inside a wrapper such as DTensor."""
    if not is_traceable_wrapper_subclass(x):
        yield x
        return
    for name in x.__tensor_flatten__()[0]:
        inner = getattr(x, name)
        if isinstance(inner, torch.Tensor):
            yield from _plain(inner)


def _lies_here(x: torch.Tensor) -> bool:
    return x.layout is torch.strided and x.device.type == "cpu"


def storage_address(x: torch.Tensor) -> int:
    """The start address of a tensor's storage."""
    return int(x.untyped_storage().data_ptr())
