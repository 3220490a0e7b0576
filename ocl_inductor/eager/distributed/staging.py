"""What the host sends and receives for the ``ocl`` tensors of one collective."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ocl_inductor.resident import tensors
from ocl_inductor.resident.deferred import settle
from ocl_inductor.resident.places import place, place_of


class Staging:
    """CPU tensors for ``ocl`` ones: dense, in row-major order.

    Where the host has the memory, a tensor that is so stands for itself, without a copy. Gloo reads
    the memory from its first element on and knows no strides: of any other tensor, it takes a copy.
    """

    def __init__(self, given: Sequence[torch.Tensor]) -> None:
        """Waits until everything that was enqueued is done, so that ``given`` have their values."""
        settle(given)
        for device in {place_of(x) for x in given} or {place()}:
            tensors.synchronize(device)
        #: Tensors and the copies that they get their values from, when the collective is over.
        self._received: list[tuple[torch.Tensor, torch.Tensor]] = []
        #: All that the collective writes.
        self.results: list[torch.Tensor] = []

    def sent(self, x: torch.Tensor) -> torch.Tensor:
        """The values of ``x``."""
        if self._lies_here(x):
            return tensors.host_view(x)
        return tensors.to_host(x).resolve_conj().resolve_neg().contiguous()

    def received(self, x: torch.Tensor) -> torch.Tensor:
        """Memory for new values of ``x``."""
        if self._lies_here(x):
            return self._result(x, tensors.host_view(x))
        return self._result(x, torch.empty(x.size(), dtype=x.dtype, device="cpu"))

    def changed(self, x: torch.Tensor) -> torch.Tensor:
        """The values of ``x``, which gets new ones."""
        return self._result(x, self.sent(x))

    def land(self) -> None:
        """Copy what was received into the tensors, once the collective is over."""
        while self._received:
            tensors.from_host(*self._received.pop())

    def _lies_here(self, x: torch.Tensor) -> bool:
        return (
            tensors.in_place(place_of(x)) and x.is_contiguous() and not (x.is_conj() or x.is_neg())
        )

    def _result(self, x: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
        self.results.append(x)
        if self._lies_here(x):
            tensors.note_write(x)
        else:
            self._received.append((x, host))
        return host
