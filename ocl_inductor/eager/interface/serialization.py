"""``torch.load`` of tensors that were saved on ``ocl``, or are mapped to it."""

from __future__ import annotations

import torch

from ocl_inductor.resident import tensors
from ocl_inductor.resident.places import NAME, index_of

#: Before PyTorch's own handler for such devices (23), which requires a C++ allocator.
_PRIORITY = 15


def register_loading() -> None:
    """Register loading of storages to ``ocl`` with ``torch.load``."""
    torch.serialization.register_package(_PRIORITY, lambda storage: None, _load)


def _load(
    storage: torch.UntypedStorage | torch.TypedStorage, location: str
) -> torch.UntypedStorage | None:
    """A storage of the file as one on the device; None where that is not its location."""
    if location.partition(":")[0] != NAME:
        return None
    untyped = storage if isinstance(storage, torch.UntypedStorage) else storage._untyped_storage
    source = torch.empty(0, dtype=torch.uint8, device="cpu").set_(untyped)
    made = tensors.empty_strided((source.numel(),), (1,), torch.uint8, index_of(location))
    tensors.from_host(made, source)
    return made.untyped_storage()
