"""Copies and sizes of ``ocl`` storages: PyTorch's own code requires a C++ allocator."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ocl_inductor.resident import tensors
from ocl_inductor.resident.allocator import allocator_of
from ocl_inductor.resident.deferred import flush
from ocl_inductor.resident.places import NAME, place
from ocl_inductor.support.torch_versions import storages_take_memory


def copy_storages_here() -> None:
    """Make ``UntypedStorage.clone``, which ``copy.deepcopy`` uses, and ``resize_``, by which FSDP
    frees parameters between two uses, work for ``ocl``."""
    clone, resize = torch.UntypedStorage.clone, torch.UntypedStorage.resize_

    @functools.wraps(clone)
    def cloned(self: torch.UntypedStorage) -> torch.UntypedStorage:
        if self.device.type != NAME:
            return clone(self)
        x = torch.empty(0, dtype=torch.uint8, device=self.device).set_(self)
        return x.clone().untyped_storage()

    @functools.wraps(resize)
    def resized(self: torch.UntypedStorage, size: int) -> Any:
        if self.device.type != NAME or not storages_take_memory():
            return resize(self, size)
        _resize(self, size)
        return self

    torch.UntypedStorage.clone = cloned  # type: ignore[method-assign]
    torch.UntypedStorage.resize_ = resized  # type: ignore[assignment]


def _resize(storage: torch.UntypedStorage, nbytes: int) -> None:
    """Give a storage other memory, with the bytes that fit into it.

    Kernels that use the old one are in the queue already, before all that gets it next.
    """
    flush()
    kept = min(nbytes, storage.nbytes())
    index = storage.device.index
    block = allocator_of(place(index)).allocate(nbytes)
    made = tensors.storage_over(block, nbytes)
    if kept:
        old, new = (
            tensors.on_storage(s, (kept,), (1,), 0, torch.uint8, index) for s in (storage, made)
        )
        new.copy_(old)
    # What was computed from the values, with the old count, is outdated.
    block.writes = getattr(getattr(storage, "block", None), "writes", 0) + 1
    storage._swap_data_ptr_(made)
    storage.block, storage.hosts = block, {}
