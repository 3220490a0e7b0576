"""Backends whose model and inputs are on the device ``ocl``.

``ocl`` runs operators one by one, ``ocl_lazy`` records them, ``ocl_compiled`` compiles the model
with ``backend="opencl"``. A process has one such device, which is chosen before it is used.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

#: What says which device ``ocl`` is, by the options of such a backend.
VARIABLES = {"device": "OCL_INDUCTOR_DEVICE", "memory": "OCL_INDUCTOR_MEMORY"}
LAZY, COMPILED = "ocl_lazy", "ocl_compiled"
NAMES = ("ocl", LAZY, COMPILED)


#: The options with which this process has registered it.
_registered: list[dict[str, Any]] = []


def register(options: Mapping[str, Any]) -> None:
    """Make ``ocl`` the device of ``options``. Before the first backward pass of the process.

    Raises:
        ValueError: this process has registered it with others.
    """
    if _registered and _registered[0] != options:
        raise ValueError(
            "a process has one device `ocl`: backends that are timed in turns need the same "
            f"options, not {_registered[0]} and {dict(options)}"
        )
    _registered[:] = [dict(options)]
    for option, value in options.items():
        os.environ[VARIABLES[option]] = str(value)
    importlib.import_module("ocl_inductor.eager")


@contextlib.contextmanager
def running(name: str) -> Iterator[None]:
    """Lazy mode for ``ocl_lazy``; at the end the device has finished."""
    import torch

    with torch.ocl.lazy() if name == LAZY else contextlib.nullcontext():
        yield
    torch.ocl.synchronize()
