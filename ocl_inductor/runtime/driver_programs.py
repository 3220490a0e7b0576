"""The driver's part: programs from source or binary, and binaries from programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ocl_inductor.device import Device
from ocl_inductor.drivers import load_pyopencl
from ocl_inductor.log import logger

_log = logger(__name__)


def program_from_source(source: str, options: Sequence[str], device: Device) -> Any:
    """A pyopencl Program. Raises pyopencl.Error, with the driver's log, where it is refused."""
    program = load_pyopencl().Program(device.context, source)
    return program.build(options=list(options), cache_dir=False)


def program_from_binary(binary: bytes, device: Device) -> Any:
    """A pyopencl Program. Raises pyopencl.Error where the driver does not take the binary."""
    program = load_pyopencl().Program(device.context, [device.cl_device], [binary])
    return program.build(cache_dir=False)


def binary_of(program: Any) -> bytes:
    """What the driver gives to keep; empty where it gives nothing."""
    cl = load_pyopencl()
    try:
        binaries = program.get_info(cl.program_info.BINARIES)
    except cl.Error as error:
        _log.info("the driver gives no binary: %s", error)
        return b""
    return bytes(binaries[0]) if binaries and binaries[0] else b""
