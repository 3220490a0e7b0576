"""Which of the OpenCL drivers that pip installs are on this machine."""

from __future__ import annotations

PIP_DRIVERS = ("intel", "pocl")  # best one first, as measured


def is_present(device: str) -> bool:
    """Whether the backend finds a device for this option string."""
    from ocl_inductor import OpenCLInductorError, select_device

    try:
        select_device(device)
    except OpenCLInductorError:
        return False
    return True


def present_drivers() -> list[str]:
    """Those of ``PIP_DRIVERS`` that are here, best first; empty if the backend cannot load."""
    try:
        return [name for name in PIP_DRIVERS if is_present(name)]
    except ImportError:
        return []
