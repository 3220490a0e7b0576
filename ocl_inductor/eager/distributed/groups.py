"""Process groups that take ``ocl`` tensors."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from ocl_inductor.resident.places import NAME

_GLOO = "gloo"


def make_group(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.ProcessGroup:
    """A process group of the backend ``ocl``: gloo, for tensors of the CPU and of ``ocl``.

    A whole group and no backend of one: collectives on ``ocl`` tensors end as collectives on CPU
    tensors of the same group (``collectives.py``), also where ``ocl`` is the only device named.
    """
    group, gloo = (
        dist.ProcessGroup(store, rank, size),
        dist.ProcessGroupGloo(store, rank, size, timeout),
    )
    kind = dist.ProcessGroup.BackendType.CUSTOM
    group._set_default_backend(kind)
    for device in ("cpu", NAME):
        group._register_backend(torch.device(device), kind, gloo)
    return group


def register_groups() -> None:
    """Make ``ocl`` a backend, the default one of this device, and ``gloo`` one that takes it."""
    dist.Backend.register_backend(NAME, make_group, devices=[NAME])
    taken = dist.Backend.backend_capability[_GLOO]
    if NAME not in taken:
        taken.append(NAME)
