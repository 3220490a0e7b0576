"""Makes ``torch.distributed`` take ``ocl`` tensors; only imported where that is in PyTorch."""

from __future__ import annotations

import torch

from ocl_inductor.eager.distributed.collectives import register_collectives
from ocl_inductor.eager.distributed.groups import register_groups


def register_communication() -> torch.library.Library:
    """Registrations end with the object that is returned."""
    register_groups()
    return register_collectives()
