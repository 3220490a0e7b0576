"""Queries to a driver about a pyopencl Device, with normalised answers."""

from __future__ import annotations

from typing import Any

from ocl_inductor.device.driver.handles import ClDevice
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.quirks import Names


def names_of(device: ClDevice) -> Names:
    """The names that the driver reports for itself and its device."""
    platform = device.platform
    return Names(
        platform_name=platform.name.strip(),
        platform_version=platform.version.strip(),
        name=device.name.strip(),
        vendor=device.vendor.strip(),
        driver_version=device.driver_version.strip(),
    )


def kind_of(device: ClDevice) -> str:
    """cpu, gpu or accelerator."""
    types = load_pyopencl().device_type
    if device.type & types.CPU:
        return "cpu"
    return "gpu" if device.type & types.GPU else "accelerator"


def ask(device: object, attribute: str, default: object) -> Any:
    """A device attribute, or `default` where the driver does not support the query."""
    try:
        return getattr(device, attribute)
    except (load_pyopencl().Error, AttributeError):
        return default
