"""Copies of ``ocl`` storages: PyTorch's own implementation requires a C++ allocator."""

from __future__ import annotations

import functools

import torch

from ocl_inductor.resident.places import NAME


def copy_storages_here() -> None:
    """Make ``UntypedStorage.clone``, which ``copy.deepcopy`` uses, work for ``ocl``."""
    clone = torch.UntypedStorage.clone

    @functools.wraps(clone)
    def cloned(self: torch.UntypedStorage) -> torch.UntypedStorage:
        if self.device.type != NAME:
            return clone(self)
        x = torch.empty(0, dtype=torch.uint8, device=self.device).set_(self)
        return x.clone().untyped_storage()

    torch.UntypedStorage.clone = cloned  # type: ignore[method-assign]
