"""Storages of ``ocl`` tensors without memory, and how they get it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C._dynamo.guards import _reinterpret_tensor  # type: ignore[attr-defined]

from ocl_inductor.eager.lazy.gates import storage_of
from ocl_inductor.eager.lazy.steps import Fresh, Piece
from ocl_inductor.resident import tensors
from ocl_inductor.resident.allocator import allocator_of
from ocl_inductor.resident.places import place
from ocl_inductor.resident.tensors import reach_of

_empty_tensor = torch._C._acc.create_empty_tensor  # type: ignore[attr-defined]


def pending(block: Piece | Fresh, plain: bool = False) -> tuple[Tensor, torch.UntypedStorage]:
    """A tensor, and its storage without memory, as ``block`` says it; ``plain``: contiguous."""
    x: Tensor = _empty_tensor(block.size, block.dtype)
    if not plain and x.stride() != block.stride:
        x = _reinterpret_tensor(x, block.size, block.stride, 0)
    storage = storage_of(x)
    storage.block = block
    return x, storage


def allocate(storage: torch.UntypedStorage) -> None:
    """Give memory to a storage that has none yet.

    Raises:
        DeviceMemoryError: not enough memory.
    """
    own = storage.block
    nbytes = reach_of(own.size, own.stride) * own.dtype.itemsize
    block = allocator_of(place()).allocate(nbytes)
    storage._swap_data_ptr_(tensors.storage_over(block, nbytes))
    storage.block = block
