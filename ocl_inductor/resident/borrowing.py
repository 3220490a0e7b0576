"""``ocl`` tensors as arguments of operators that run on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ocl_inductor.device.device import Device
from ocl_inductor.resident import tensors
from ocl_inductor.resident.deferred import settle
from ocl_inductor.resident.places import NAME, is_resident
from ocl_inductor.resident.schemas import written_arguments

_cpu = torch.device("cpu")


class Borrowed:
    """The host's view of the ``ocl`` tensors of one call, all on ``device``: their memory, or
    copies of it."""

    def __init__(self, device: Device) -> None:
        self._hosts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._device = device
        self.in_place = tensors.in_place(device)
        #: One of the arguments with dimensions that were on the CPU already, if any.
        self.elsewhere: torch.Tensor | None = None

    def argument(self, x: object) -> Any:
        """``x`` for the host: a CPU tensor for an ``ocl`` one, the CPU for its device."""
        if not isinstance(x, torch.Tensor):
            return _cpu if isinstance(x, torch.device) and x.type == NAME else x
        if x.is_cpu or not is_resident(x):
            if x.dim():
                self.elsewhere = x
            return x
        known = self._hosts.get(id(x))
        if known is None:
            settle((x,))
            if self.in_place:
                if not self._hosts:
                    tensors.synchronize(self._device)
                host = tensors.host_view(x)
            else:
                host = tensors.to_host(x)
            known = self._hosts[id(x)] = (x, host)
        return known[1]

    def owner(self, host: torch.Tensor) -> torch.Tensor | None:
        """The ``ocl`` tensor that a CPU tensor represents, if any."""
        return next((x for x, known in self._hosts.values() if known is host), None)

    def written(
        self, operator: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        """Copy back the arguments that the operator has written according to its schema."""
        for x in written_arguments(operator, args, kwargs):
            self.wrote(x)

    def wrote(self, x: torch.Tensor) -> None:
        """Copy back what the host has written into its copy of ``x``."""
        _, host = self._hosts[id(x)]
        if host.size() != x.size():  # out= of another size
            tensors.resize(x, host.size(), host.stride())
            tensors.from_host(x, host)
        elif self.in_place:
            tensors.note_write(x)
        else:
            tensors.from_host(x, host)

    def all(self) -> list[torch.Tensor]:
        """The ``ocl`` tensors."""
        return [x for x, _ in self._hosts.values()]
