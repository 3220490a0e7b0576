"""A version of each kernel that no launch of ours runs, neither compiled nor kept.

A driver that makes several versions of a kernel looks whether one is there already, in the folder
where it keeps what it compiled, and loads it. So a compile worker gives it a folder of its own, and
a library with the right names in the version's place (``quirks.UnusedVariant``). When the driver
has loaded that, it is taken away again: the same program, built once more, has nothing to compile
and nothing of the version to put into its binary. A launch that wants the version finds none, and
compiles it.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def binary_without(unused_variant: UnusedVariant, folder: Path, build: Callable[[], Any]) -> bytes:
    """The binary of the program that ``build`` builds in ``folder``, without the version.

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
    if not places:  # it keeps what it compiles elsewhere, or nothing
        return binary_of(program)
    for place in places:
        place.parent.mkdir(parents=True)
        place.write_bytes(stub)
    compile_all(program)
    for place in places:
        shutil.rmtree(place.parent)
    return binary_of(build())
