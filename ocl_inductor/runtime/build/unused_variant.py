"""Skips a variant of each kernel that our launches never use: it is neither compiled nor stored.

A driver that compiles several variants of a kernel first looks for each in its own compile cache,
and loads it from there. So a compile worker gives it a private cache folder with a stub library in
the variant's place (``quirks.UnusedVariant``). When the driver has loaded the stub, it is removed:
the same program, built once more, has nothing to compile and no variant to put into its binary. A
launch that needs the variant does not find it, and compiles it.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path

from ocl_inductor.device.quirks import UnusedVariant
from ocl_inductor.runtime.build.driver_programs import binary_of, compile_all, kernels_of
from ocl_inductor.runtime.build.stub_library import stub_library


def can_leave_out(folder: Path) -> bool:
    """Whether a library in ``folder`` can be loaded: drivers end the process when it cannot."""
    place = folder / "try.so"
    try:
        place.write_bytes(stub_library(["name"]))
        ctypes.CDLL(str(place)).name  # noqa: B018
    except (OSError, ValueError, AttributeError):
        return False
    finally:
        place.unlink(missing_ok=True)
    return True


def binary_without(
    unused_variant: UnusedVariant, folder: Path, build: Callable[[], object]
) -> bytes:
    """The binary of the program that ``build`` builds in ``folder``, without the variant.

    Raises:
        OSError: the folder cannot be written.
        pyopencl.Error: the driver does not build the program.
    """
    before = set(folder.glob(unused_variant.program))
    program = build()
    built = set(folder.glob(unused_variant.program))
    kernels = kernels_of(program)
    stub = stub_library([unused_variant.symbol.format(kernel=kernel) for kernel in kernels])
    places = [
        found.parent / unused_variant.version.format(kernel=kernel)
        for found in built - before or built  # one of those that are there, if it is not new
        for kernel in kernels
    ]
    if not places:  # its compile cache is elsewhere, or off
        return binary_of(program)
    for place in places:
        place.parent.mkdir(parents=True)
        place.write_bytes(stub)
    compile_all(program)
    for place in places:
        shutil.rmtree(place.parent)
    return binary_of(build())
