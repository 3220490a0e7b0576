"""Which OpenCL device ``ocl`` is: one a process.

PyTorch's interface for backends written in Python knows a single device (2.11 to 2.13: its
C++ guard counts one, and autograd's engine has a thread for that one).
"""

from __future__ import annotations

import functools
import threading

import torch

from ocl_inductor.device.device import Device
from ocl_inductor.device.select import list_devices, select_device
from ocl_inductor.errors import NoSuchPlaceError, PlaceTakenError
from ocl_inductor.settings import Settings

#: The name of the device type.
NAME = "ocl"


class _Choice:
    """The chosen device of this process."""

    device: Device | None = None
    lock = threading.RLock()


def choose(spec: str | None) -> Device:
    """Make ``ocl`` the OpenCL device that ``spec`` names, as ``options={"device": …}`` does.

    Raises:
        PlaceTakenError: another one was chosen already, and may hold tensors.
        NoDeviceError, DeviceNotFoundError: see ``select_device``.
    """
    with _Choice.lock:
        found = select_device(spec)
        if _Choice.device is not None and _Choice.device is not found:
            raise PlaceTakenError(str(_Choice.device), str(found))
        _Choice.device = found
        return found


def place(index: int | None = None) -> Device:
    """The OpenCL device that ``ocl`` is: the one that ``choose`` or OCL_INDUCTOR_DEVICE named, or
    the preferred one.

    Raises:
        NoSuchPlaceError: ``index`` is above 0.
        NoDeviceError, DeviceNotFoundError: see ``select_device``.
    """
    if index is not None and index > 0:
        raise NoSuchPlaceError(index)
    found = _Choice.device
    return found if found is not None else choose(Settings.resolve().device)


def place_count() -> int:
    """1, or 0 where there is no OpenCL device at all."""
    return 1 if list_devices() else 0


@functools.cache
def place_device() -> torch.device:
    """``ocl:0``, once it is registered."""
    return torch.device(NAME, 0)


def index_of(device: torch.device | str | int | None) -> int:
    """The number of a device as PyTorch's functions take it."""
    if device is None:
        return 0
    if isinstance(device, int):
        return device
    return torch.device(device).index or 0


def is_resident(x: object) -> bool:
    """Whether it is a tensor of this device type, fake ones included."""
    return isinstance(x, torch.Tensor) and x.device.type == NAME
