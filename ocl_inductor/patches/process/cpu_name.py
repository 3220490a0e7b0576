"""Overwrites a string in a driver's memory with another one that is not longer.

A ``cl_device_id`` points to the driver's description of the device; one of the pointers in that
leads to the string. Memory is read and written through ``/proc/self/mem``, which returns an error
for addresses that are not mapped, where dereferencing a pointer would end the process.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

_MEMORY = Path("/proc/self/mem")
#: Bytes of a driver's description of a device that are searched: PoCL 3.0 has the name at 640. The
#: description of its next device follows.
_DESCRIPTION = 1024


def overwrite_text(description: int, old: bytes, new: bytes) -> None:
    """Overwrite the first string ``old`` that a pointer in the description leads to.

    Raises:
        LookupError: no pointer leads to ``old``, or ``new`` is longer.
        OSError: the memory cannot be read or written.
    """
    if len(new) > len(old):
        raise LookupError("its name for it has no room for another")
    memory = os.open(_MEMORY, os.O_RDWR)
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
