"""The driver's part: programs from source or binary, and binaries from programs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClProgram
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.log import logger

_log = logger(__name__)
#: An option of OpenCL's: compilers write to a user's terminal that there were warnings. Errors are
#: still reported.
_NO_WARNINGS = "-w"


def program_from_source(source: str, options: Sequence[str], device: Device) -> ClProgram:
    """A pyopencl Program. Raises pyopencl.Error, with the driver's log, where it is refused."""
    program = load_pyopencl().Program(device.context, source)
    return program.build(options=[*options, _NO_WARNINGS], cache_dir=False)


def program_from_binary(binary: bytes, device: Device) -> ClProgram:
    """A pyopencl Program. Raises pyopencl.Error where the driver does not take the binary."""
    program = load_pyopencl().Program(device.context, [device.cl_device], [binary])
    return program.build(cache_dir=False)


def binary_of(program: ClProgram) -> bytes:
    """The binary that the driver returns; empty where it returns none."""
    cl = load_pyopencl()
    try:
        binaries = program.get_info(cl.program_info.BINARIES)
    except cl.Error as error:
        _log.info("the driver gives no binary: %s", error)
        return b""
    return bytes(binaries[0]) if binaries and binaries[0] else b""


def compile_all(program: ClProgram) -> None:
    """Make the driver do the work it defers until a program's binary is queried."""
    program.get_info(load_pyopencl().program_info.BINARY_SIZES)


def kernels_of(program: ClProgram) -> list[str]:
    """The names of a program's kernels."""
    names = program.get_info(load_pyopencl().program_info.KERNEL_NAMES)
    return [name for name in names.split(";") if name]


def make_ready(program: ClProgram, kernel: str) -> None:
    """Make the driver do now the work it defers until a program's first kernel object is created.

    With Intel's that takes as long as loading a binary, 1.5 ms, during which pyopencl holds the
    GIL. This call releases it.
    """
    functions = _functions()
    if functions is None:
        return
    create, release = functions
    handle = create(program.int_ptr, kernel.encode(), None)
    if handle:  # else pyopencl will report the error
        release(handle)


@cache
def _functions() -> tuple[Any, Any] | None:
    """clCreateKernel and clReleaseKernel of the OpenCL that pyopencl uses."""
    try:
        library = ctypes.CDLL(load_pyopencl()._cl.__file__)
        create, release = library.clCreateKernel, library.clReleaseKernel
    except (AttributeError, OSError) as error:  # linked in another way
        _log.debug("kernels are made with pyopencl alone: %s", error)
        return None
    create.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    create.restype = ctypes.c_void_p
    release.argtypes = [ctypes.c_void_p]
    return create, release
