"""The devices that an opened driver lists, as plain data."""

from __future__ import annotations

from collections.abc import Sequence

from ocl_inductor.device.driver.cpu_name_override import override_cpu_name
from ocl_inductor.device.driver.handles import ClDevice, ClPlatform
from ocl_inductor.device.driver.inventory import Listed
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.driver.questions import ask, kind_of, names_of
from ocl_inductor.log import logger

_log = logger(__name__)


def listed(platforms: Sequence[object]) -> tuple[Listed, ...]:
    """The devices of a driver's pyopencl Platforms, as plain data."""
    return tuple(d for n, p in enumerate(platforms) for _, d in devices_of(p, n))


def devices_of(platform: ClPlatform, number: int) -> list[tuple[ClDevice, Listed]]:
    """The devices of a pyopencl Platform, the driver's ``number``-th; none where it fails."""
    try:
        devices = platform.get_devices()
    except load_pyopencl().Error as error:
        _log.info("platform %s lists no devices: %s", platform.name, error)
        return []
    for device in devices:
        override_cpu_name(device, names_of(device))
    return [(d, listed_device((number, k), d)) for k, d in enumerate(devices)]


def listed_device(place: tuple[int, int], device: object) -> Listed:
    """A pyopencl Device as plain data; ``place`` as of ``Listed``."""
    unified = bool(ask(device, "host_unified_memory", False))
    return Listed(place, names_of(device), kind_of(device), unified)
