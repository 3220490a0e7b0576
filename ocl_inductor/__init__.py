"""ocl_inductor: a ``torch.compile`` backend that emits OpenCL.

Nothing is imported here: ``torch`` loads this package at the end of its own import (see
``_autoload.py``), so importing it must stay cheap and must not import pyopencl.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Public name -> the module that defines it; loaded at first use.
_LAZY = {
    "DeviceInfo": "ocl_inductor.device.facts",
    "OpenCLInductorError": "ocl_inductor.errors",
    "Settings": "ocl_inductor.settings",
    "explain": "ocl_inductor.observe.explain",
    "list_devices": "ocl_inductor.device.select",
    "opencl_backend": "ocl_inductor.compile",
    "profile": "ocl_inductor.observe.profiler",
    "select_device": "ocl_inductor.device.select",
}

__all__ = ["__version__", *_LAZY]  # noqa: PLE0604  (the names are the table's)


def _version() -> str:
    """What pyproject.toml said when this was installed: nothing else names the version."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ocl-inductor")
    except PackageNotFoundError:  # the sources alone, on a path
        return "0+unknown"


def __getattr__(name: str) -> Any:
    if name == "__version__":
        globals()[name] = _version()
        return globals()[name]
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
