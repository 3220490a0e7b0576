"""The list of available devices, and the choice of one."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from functools import cache

from ocl_inductor.device import fork, quirks
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver import icd_loader
from ocl_inductor.device.driver.inventory import Library, Listed
from ocl_inductor.device.driver.listing import devices_of
from ocl_inductor.device.driver.pyopencl_loader import forget_survey, load_pyopencl, surveyed
from ocl_inductor.errors import (
    DeviceNotFoundError,
    DriverChangedError,
    DriverNotOpenedError,
    NoDeviceError,
)
from ocl_inductor.log import logger

_log = logger(__name__)
_listing = threading.Lock()


@cache
def _devices() -> tuple[Device, ...]:
    libraries = surveyed()
    if libraries is None:
        found = _of_the_loader()
    else:
        load_pyopencl()  # raises here if pyopencl is missing
        found = [[_unopened(x, d) for d in x.devices] for x in libraries]
    seen: set[tuple[quirks.Names, ...]] = set()
    devices: list[Device] = []
    for here in found:
        # One driver can be found twice: in the bundled loader's folder and in another.
        identity = tuple(d.names for d in here)
        if identity not in seen:
            seen.add(identity)
            devices += here
    return tuple(sorted(devices, key=lambda d: d.sort_key))


def _unopened(library: Library, found: Listed) -> Device:
    return Device(None, found, library.name, _inline_device_of(library), _forget)


def _forget() -> None:
    """A driver's devices differ from the cached ones: list all of them again."""
    forget_survey()
    _devices.cache_clear()


def _inline_device_of(library: Library) -> quirks.InlineDevice | None:
    """The inline device of a driver with one device; with several, some might not be listed."""
    return quirks.inline_device(library.devices[0].names) if len(library.devices) == 1 else None


def _of_the_loader() -> list[list[Device]]:
    """The devices of each platform that the OpenCL loader lists; opens every driver."""
    cl = load_pyopencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return []
    return [[Device(cl_device, d) for cl_device, d in devices_of(p, 0)] for p in platforms]


def devices_in(library: str) -> list[Device]:
    """The devices of one driver, opened now in a process that opens no other.

    Raises:
        NeedsLoaderError: only the OpenCL loader can open it.
    """
    cl = load_pyopencl()
    platforms = [cl.Platform.from_int_ptr(x) for x in icd_loader.platform_ids(library)]
    return [
        Device(cl_device, found)
        for number, platform in enumerate(platforms)
        for cl_device, found in devices_of(platform, number)
    ]


def list_devices() -> list[Device]:
    """Every device of every driver, the preferred one first; the same objects at every call."""
    fork.check()
    with _listing:  # two listings would be two devices, and two contexts
        return list(_devices())


def with_first(first: Device) -> tuple[Device, ...]:
    """Every device by its number among ``ocl:0``, ``ocl:1`` …, where ``first`` is ``ocl:0``."""
    return (first, *(d for d in list_devices() if d is not first))


def select_device(
    spec: str | None = None, meanwhile: Callable[[Device], None] | None = None
) -> Device:
    """The device `spec` names, or the preferred one for None.

    A spec is a kind ("cpu", "gpu", "accelerator") or a part of the driver's short name, of its
    platform's name and version, or of the device's name, in any case; ``:N`` takes the N-th match
    (from 0, in order of preference). ``meanwhile`` is called when it is chosen, before its driver
    is opened and queried.

    Where this process cannot open the preferred one's driver, and no other was excluded by
    ``spec``, the next is taken, with a warning.

    Raises:
        NoDeviceError: there is no device at all.
        DeviceNotFoundError: none matches.
        DriverNotOpenedError: this process cannot open the driver of any that matches.
    """
    chosen = _choose(spec)
    if meanwhile is not None:
        meanwhile(chosen)
    try:
        chosen.cl_device  # noqa: B018  (opens the driver)
    except DriverChangedError as error:
        _log.info("%s", error)
        chosen = _choose(spec)
    except DriverNotOpenedError as error:
        chosen = _next_that_opens(spec, chosen, error)
    chosen.ask_in_background()
    return chosen


def _next_that_opens(spec: str | None, chosen: Device, error: DriverNotOpenedError) -> Device:
    """The first device after ``chosen`` that ``spec`` allows and that can be opened."""
    devices = list_devices()
    if spec is not None:
        text, index = _split_spec(spec)
        devices = _matching(devices, text)[0][: None if index == 0 else 0]
    for other in devices[devices.index(chosen) + 1 :] if chosen in devices else []:
        with contextlib.suppress(DriverNotOpenedError):
            other.cl_device  # noqa: B018
            _warn_once(f"{error} {other} is used instead.")
            return other
    raise error


@cache
def _warn_once(text: str) -> None:
    _log.warning("%s", text)


def _choose(spec: str | None) -> Device:
    devices = list_devices()
    if not devices:
        raise NoDeviceError()
    if spec is None:
        return devices[0]
    text, index = _split_spec(spec)
    matching, _ = _matching(devices, text)
    if index >= len(matching):
        raise DeviceNotFoundError(spec, [str(d) for d in devices])
    return matching[index]


def why_chosen(spec: str | None) -> str:
    """Why ``select_device(spec)`` chooses its device. Raises as it does."""
    chosen, devices = select_device(spec), list_devices()
    if spec is not None:
        text, index = _split_spec(spec)
        matching, how = _matching(devices, text)
        place = f"number {index} of {len(matching)} matches" if len(matching) > 1 else "the match"
        return f"{spec!r} was asked for: {place} by {how}"
    if len(devices) == 1:
        return "the only device"
    same = [d for d in devices if d.sort_key[:2] == chosen.sort_key[:2]]
    order = "no device was named; discrete GPUs come first, then integrated ones, then CPUs"
    return order if len(same) == 1 else f"{order}; of {len(same)} alike, its driver is preferred"


def _split_spec(spec: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?)(?::(\d+))?", spec.strip(), re.S)
    assert found is not None  # the pattern matches everything
    return found.group(1).strip().lower(), int(found.group(2) or 0)


def _matching(devices: list[Device], text: str) -> tuple[list[Device], str]:
    """The devices that match, and the matching property."""
    # Platforms before device names: a CPU's name can hold the name of another vendor's platform.
    ways: tuple[tuple[str, Callable[[Device], bool]], ...] = (
        ("kind", lambda d: d.kind == text),
        ("spec", lambda d: text in d.short_name),
        (
            "platform",
            lambda d: text in f"{d.names.platform_name} {d.names.platform_version}".lower(),
        ),
        ("name", lambda d: text in d.names.name.lower()),
    )
    for how, way in ways:
        found = [d for d in devices if way(d)]
        if found:
            return found, how
    return [], ""
