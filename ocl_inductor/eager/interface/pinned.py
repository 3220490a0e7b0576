"""``pin_memory()`` of CPU tensors, which PyTorch asks its accelerator for.

PyTorch wants an allocator written in C++ of the accelerator, and raises without one, also in a
``DataLoader(pin_memory=True)`` whose batches never see ``ocl``. Large copies to a device with
memory of its own go through pinned memory of ours anyway (``resident/``), so an ordinary copy
serves.
"""

from __future__ import annotations

import torch


def pin_memory(x: torch.Tensor, device: object = None) -> torch.Tensor:
    """A copy of ``x``, in ordinary memory."""
    return x.clone(memory_format=torch.preserve_format)


def register_pinning() -> torch.library.Library:
    """Registrations end with the object that is returned."""
    aten = torch.library.Library("aten", "IMPL")
    aten.impl("_pin_memory", pin_memory, "CPU")
    return aten
