"""``torch.ocl.lazy()`` and ``torch.ocl.set_lazy(True)``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch
from torch.utils.hooks import RemovableHandle

from ocl_inductor.eager.lazy.gates import close_gates, open_gates
from ocl_inductor.eager.lazy.record import LazyRecord
from ocl_inductor.errors import NoLazyModeError
from ocl_inductor.patches.pytorch.lazy_steps import after_each_step
from ocl_inductor.resident.deferred import Deferred
from ocl_inductor.support.torch_versions import storages_take_memory


class _State:
    """How often it was switched on; the record stays, with all that it has compiled."""

    depth = 0
    record: LazyRecord | None = None
    #: What tells the record of each optimiser's step.
    steps: RemovableHandle | None = None
    lock = threading.RLock()


@contextlib.contextmanager
def lazy() -> Iterator[None]:
    """Record operators on ``ocl`` tensors inside, in every thread, and compile them as one graph.

    Raises:
        NoLazyModeError: this PyTorch cannot give memory to a storage later.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def set_lazy(mode: bool) -> None:
    """The same from now on, or no longer. Raises as ``lazy``."""
    with _State.lock:
        if mode and _State.depth == 0:
            _enter()
        elif not mode and _State.depth:
            _State.depth = 1
            _leave()


def is_lazy() -> bool:
    """Whether operators on ``ocl`` tensors are recorded."""
    return Deferred.recorder is not None


def _enter() -> None:
    with _State.lock:
        if not storages_take_memory():
            raise NoLazyModeError(torch.__version__)
        if _State.record is None:
            _State.record = LazyRecord()
        _State.depth += 1
        if _State.depth == 1:
            open_gates(_State.record.ready)
            Deferred.recorder = _State.record
            _State.steps = after_each_step(_stepped)


def _stepped(*_: object) -> None:
    """An optimiser's step is over. Those that are compiled record nothing."""
    if not torch.compiler.is_compiling() and _State.record is not None:
        _State.record.end_of_step()


def _leave() -> None:
    """Raises errors of operators that are computed now."""
    with _State.lock:
        _State.depth -= 1
        record = _State.record
        assert record is not None
        if _State.depth:
            record.flush()
            return
        try:
            record.flush()
        finally:
            Deferred.recorder = None
            if _State.steps is not None:
                _State.steps.remove()
            record.end()
            close_gates()
