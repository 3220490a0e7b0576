"""Which OpenCL devices ``ocl:0``, ``ocl:1`` … are.

PyTorch's interface for backends written in Python counts a single device (2.11 to 2.13: its C++
guard has 0 for every index). Hence ``ocl`` without an index is ``ocl:0`` wherever PyTorch's C++
decides, and tensors of the others are made in another way (``elsewhere.py``).
"""

from __future__ import annotations

import functools
import threading

import torch

from ocl_inductor.device.device import Device
from ocl_inductor.device.select import list_devices, select_device, with_first
from ocl_inductor.errors import NoSuchPlaceError, PlaceTakenError
from ocl_inductor.settings import Settings

#: The name of the device type.
NAME = "ocl"


class _Choice:
    """The devices of this process."""

    #: ``ocl:0``.
    device: Device | None = None
    #: All of them, by index, once another than ``ocl:0`` was asked for.
    devices: tuple[Device, ...] = ()
    #: The indices of those that were used, beside 0.
    used: frozenset[int] = frozenset()
    lock = threading.RLock()


class _Current(threading.local):
    """The device that a thread means where it names none."""

    index = 0


_current = _Current()


def choose(spec: str | None) -> Device:
    """Make ``ocl:0`` the OpenCL device that ``spec`` names, as ``options={"device": …}`` does.

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


def place(index: int = 0) -> Device:
    """The OpenCL device that ``ocl:index`` is. 0: the one that ``choose`` or OCL_INDUCTOR_DEVICE
    named, or the preferred one; from 1 on the others, in the order of ``ocl-inductor devices``.

    Raises:
        NoSuchPlaceError: there are not so many.
        NoDeviceError, DeviceNotFoundError: see ``select_device``.
    """
    if index:
        return _further(index)
    found = _Choice.device
    return found if found is not None else choose(Settings.resolve().device)


def _further(index: int) -> Device:
    with _Choice.lock:
        if not _Choice.devices:
            _Choice.devices = with_first(place())
    if not 0 < index < len(_Choice.devices):
        raise NoSuchPlaceError(index, [str(d) for d in _Choice.devices])
    return _Choice.devices[index]


def place_of(x: torch.Tensor) -> Device:
    """The OpenCL device that an ``ocl`` tensor is on."""
    return place(x.get_device())


@functools.cache
def index_of_place(device: Device) -> int:
    """Its index, which never changes. Raises ValueError for one that the process has not."""
    return 0 if device is place() else with_first(place()).index(device)


def note_use(index: int) -> None:
    """Tensors are going to be on ``ocl:index``."""
    if index not in (0, *_Choice.used):
        with _Choice.lock:
            _Choice.used |= {index}


def several_places() -> bool:
    """Whether this process has used another one than ``ocl:0``."""
    return bool(_Choice.used)


def places_in_use() -> list[Device]:
    """``ocl:0``, and the others that were used."""
    return [place(n) for n in (0, *sorted(_Choice.used))]


def place_count() -> int:
    """How many OpenCL devices there are."""
    return len(list_devices())


@functools.cache
def place_device(index: int = 0) -> torch.device:
    """``ocl:index``, once it is registered."""
    return torch.device(NAME, index)


def current_index() -> int:
    """The index of the device that this thread means where it names none."""
    return _current.index


def set_current(index: int) -> None:
    """Raises NoSuchPlaceError."""
    place(index)
    note_use(index)
    _current.index = index


def index_of(device: torch.device | str | int | None) -> int:
    """The number of a device as PyTorch's functions take it."""
    if isinstance(device, int):
        return device
    index = None if device is None else torch.device(device).index
    return _current.index if index is None else index


def is_resident(x: object) -> bool:
    """Whether it is a tensor of this device type, fake ones included."""
    return isinstance(x, torch.Tensor) and x.device.type == NAME
