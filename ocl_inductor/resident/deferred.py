"""Whether operators on ``ocl`` tensors are recorded instead of run (``eager/lazy``).

Kernels of operators and the device's interface ask here, below everything that records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch

#: What a recorder returns for an operator that has to run now.
UNRECORDED = object()


class Recorder(Protocol):
    """What records operators."""

    def add(self, operator: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """The operator's results, which have no values yet; or ``UNRECORDED``, with the values of
        all arguments computed."""
        ...

    def empty(
        self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor | None:
        """A tensor whose memory is allocated when it is needed; None: allocate it now."""
        ...

    def view(
        self, x: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None
    ) -> torch.Tensor | None:
        """A view of a tensor that has no memory yet; None: PyTorch makes it."""
        ...

    def settle(self, args: Iterable[object]) -> None:
        """Compute the values of all tensors among arguments."""
        ...

    def flush(self) -> None:
        """Compute everything that is recorded."""
        ...


class Deferred:
    """The state of this process."""

    #: None: every operator runs when it is called.
    recorder: Recorder | None = None


def flush() -> None:
    """Compute everything that is recorded, if anything is."""
    if Deferred.recorder is not None:
        Deferred.recorder.flush()


def settle(args: Iterable[object]) -> None:
    """Compute the values of all tensors among an operator's arguments."""
    if Deferred.recorder is not None:
        Deferred.recorder.settle(args)
