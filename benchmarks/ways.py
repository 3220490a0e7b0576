"""The ways in which one program runs with eager's device or on ``ocl``, each known by a name.

``cpu`` is PyTorch itself, ``ocl`` the device with operators one by one, ``ocl lazy`` the same under
``torch.ocl.lazy()``, ``ocl compiled`` with the forward pass and loss compiled, and
``ocl compiled+`` with the optimiser's step compiled as well. ``cpu compiled`` is that of
``ocl compiled`` with tensors on the CPU.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ocl_inductor.support.torch_versions import storages_take_memory


@dataclass(frozen=True, slots=True)
class Way:
    """One way of running.

    Attributes:
        device: ``cpu`` or ``ocl``.
        lazy: whether operators are recorded.
        compiled: whether the function, or the forward pass with its loss, is.
        compiled_update: whether the optimiser's step is.
        threads: those of PyTorch's own kernels; None leaves its choice.
    """

    name: str
    device: str = "ocl"
    lazy: bool = False
    compiled: bool = False
    compiled_update: bool = False
    threads: int | None = None

    def prepare(self) -> None:
        """Register ``ocl`` where it is needed, once a process and before the first backward()."""
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        if self.device == "ocl":
            importlib.import_module("ocl_inductor.eager")

    def context(self) -> contextlib.AbstractContextManager[object]:
        """Hold it around the program; what was recorded is computed at its end."""
        return torch.ocl.lazy() if self.lazy else contextlib.nullcontext()

    def wait(self) -> None:
        """Until all that was enqueued is done."""
        if self.device == "ocl":
            torch.ocl.synchronize()

    def memory_bytes(self, reset: bool = False) -> int | None:
        """The most that tensors on ``ocl`` held since the last reset; None on the CPU."""
        if self.device != "ocl":
            return None
        if reset:
            torch.ocl.reset_peak_memory_stats()
        most: int = torch.ocl.max_memory_allocated()
        return most

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function in this way; nothing is compiled before its first call."""
        return torch.compile(function, backend="opencl") if self.compiled else function

    def update(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """An optimiser's step in this way."""
        return torch.compile(step, backend="opencl") if self.compiled_update else step


WAYS = {
    way.name: way
    for way in (
        Way("cpu", "cpu"),
        Way("cpu 1 thread", "cpu", threads=1),
        Way("cpu compiled", "cpu", compiled=True),
        Way("ocl"),
        Way("ocl lazy", lazy=True),
        Way("ocl compiled", compiled=True),
        Way("ocl compiled+", compiled=True, compiled_update=True),
    )
}


def known(name: str) -> str:
    """``name`` itself.

    Raises:
        ValueError: it is no way's.
    """
    if name not in WAYS:
        raise ValueError(f"no way {name!r}; there are {', '.join(WAYS)}")
    return name


def possible(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that this PyTorch has: lazy mode came with 2.13."""
    return [name for name in names if not WAYS[name].lazy or storages_take_memory()]
