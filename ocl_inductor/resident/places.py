"""Which OpenCL device ``ocl:N`` is."""

from __future__ import annotations

import threading

import torch

from ocl_inductor.device import Device, list_devices
from ocl_inductor.errors import NoSuchPlaceError
from ocl_inductor.settings import Settings

#: The name of the device type.
NAME = "ocl"

_current = threading.local()


def place_count() -> int:
    """How many there are."""
    return len(list_devices())


def place(index: int | None = None) -> Device:
    """``ocl:N``, in the order of ``ocl-inductor devices``; the current one for None.

    Raises:
        NoSuchPlaceError: there are fewer.
    """
    devices = list_devices()
    number = current_place() if index is None else index
    if not 0 <= number < len(devices):
        raise NoSuchPlaceError(number, [str(d) for d in devices])
    return devices[number]


def place_of(device: Device) -> torch.device:
    """The ``ocl:N`` that a device is."""
    return torch.device(NAME, list_devices().index(device))


def current_place() -> int:
    """The index that ``torch.device("ocl")`` stands for in this thread: the first device's, or that
    of the one that OCL_INDUCTOR_DEVICE names, until ``set_current_place``.
    """
    number: int | None = getattr(_current, "number", None)
    if number is None:
        number = _current.number = _preferred()
    return number


def set_current_place(number: int) -> None:
    """Raises NoSuchPlaceError where there is no such device."""
    place(number)
    _current.number = number


def index_of(device: torch.device | str | int | None) -> int:
    """The number of a device as PyTorch's functions take it."""
    if device is None:
        return current_place()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return current_place() if index is None else index


def _preferred() -> int:
    from ocl_inductor.device import select_device

    spec = Settings.resolve().device
    return 0 if spec is None else list_devices().index(select_device(spec))


def is_resident(x: object) -> bool:
    """Whether it is a tensor of this device type, fake ones included."""
    return isinstance(x, torch.Tensor) and x.device.type == NAME
