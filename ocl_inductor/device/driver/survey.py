"""The process that opens every driver and prints what it lists (inventory.py asks it)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ocl_inductor.device.driver import icd_loader
from ocl_inductor.device.driver.code_pages import mapped_libraries
from ocl_inductor.device.driver.inventory import Library, file_of, text_of
from ocl_inductor.device.driver.listing import listed
from ocl_inductor.errors import DriverNotOpenedError

#: From this size on a library is opened separately, before the driver that depends on it.
_LARGE_BYTES = 16 << 20


def _survey(names: Sequence[str]) -> tuple[Library, ...]:
    """Open every driver in this process.

    Raises:
        NeedsLoaderError: one of them requires the loader.
    """
    import pyopencl

    found = []
    for name in names:
        before = mapped_libraries()
        icd_loader.open_library(name)
        parts = _parts(name, mapped_libraries() - before)
        ids = _platform_ids(name)
        devices = listed([pyopencl.Platform.from_int_ptr(x) for x in ids])
        found.append(Library(name, devices, parts))
    return tuple(found)


def _platform_ids(name: str) -> list[int]:
    try:
        return icd_loader.platform_ids(name)
    except DriverNotOpenedError:  # the log has said why
        return []


def _parts(name: str, opened: set[str]) -> tuple[str, ...]:
    own = os.path.realpath(file_of(name))
    others = sorted(x for x in opened if os.path.realpath(x) != own)
    return tuple(x for x in others if os.path.getsize(x) >= _LARGE_BYTES)


if __name__ == "__main__":
    print("\n" + text_of(_survey(sys.argv[1:])), flush=True)
    os._exit(0)  # some drivers crash at exit
