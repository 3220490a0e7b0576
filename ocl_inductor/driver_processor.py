"""A processor that is newer than the driver's compiler.

PoCL asks LLVM for the processor's name and gives the answer back to LLVM with every program. An
LLVM older than the processor says that it has no name for it, and refuses the answer; or it says
the name of an older one of the same family, without the newer one's instructions. The name
lies in PoCL's own description of the device (``llvm_cpu`` of its ``struct _cl_device_id``), and
nothing but that is asked: so an older processor is named there, all of whose instructions this one
has (``Stranger`` in quirks.py).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from ocl_inductor import quirks
from ocl_inductor.cpu_flags import cpu_flags
from ocl_inductor.log import logger

_log = logger(__name__)
_MEMORY = Path("/proc/self/mem")
#: Bytes of a driver's description of a device that are searched: PoCL 3.0 has the name at 640. The
#: description of its next device follows.
_DESCRIPTION = 1024
#: By the address of a device.
_introduced: dict[int, str] = {}


def introduce(device: Any, names: quirks.Names) -> None:
    """Name a relative of the processor of a pyopencl Device to a driver that does not know it.

    Nothing happens where the driver knows it, where the system does not show a process its own
    memory, or where the name is not found there: then no program builds, as without.
    """
    said = device.version.strip().rpartition("-")[2]
    stranger = next((x for x in quirks.strangers(names) if x.name == said), None)
    if stranger is None or device.int_ptr in _introduced:
        return
    try:
        flags = cpu_flags()
        runs = (name for name, needed in stranger.relatives.items() if needed <= flags)
        relative = next(runs, None)
        if relative is None:
            return  # it is what the driver says
        _replace(device.int_ptr, stranger.name.encode(), relative.encode())
    except (OSError, LookupError) as error:
        _log.info("%s does not know this processor: %s", names.platform_version, error)
        return
    _introduced[device.int_ptr] = relative
    _log.info("%s does not know this processor: it is told %s", names.platform_version, relative)


def device_version(device: Any) -> str:
    """What the driver says, with the name of the processor for which it compiles."""
    version: str = device.version.strip()
    relative = _introduced.get(device.int_ptr)
    return version if relative is None else f"{version} as {relative}"


def _replace(description: int, old: bytes, new: bytes) -> None:
    """Overwrite the text ``old`` to which a pointer in a description leads: the first that does.

    Raises LookupError where none does, and OSError where memory cannot be read.
    """
    assert len(new) <= len(old)  # it has no more room
    memory = os.open(
        _MEMORY, os.O_RDWR
    )  # says no to what is not mapped, where a pointer would trap
    try:
        block = os.pread(memory, _DESCRIPTION, description)
        pointers = (p for (p,) in struct.iter_unpack("P", block))
        found = (p for p in pointers if _read(memory, p, len(old) + 1) == old + b"\0")
        place = next(found, None)
        if place is None:
            raise LookupError("its name for it was not found")
        os.pwrite(memory, new + b"\0", place)
    finally:
        os.close(memory)


def _read(memory: int, address: int, size: int) -> bytes:
    try:
        return os.pread(memory, size, address)
    except (OSError, OverflowError):
        return b""
