"""A text in a driver's own memory, overwritten by another one that is no longer.

What a driver gives away is a pointer to its description of a device; the text lies where a pointer
in that leads. Linux shows a process its memory as a file, which says no to what is not mapped,
where a pointer would trap.
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
    """Overwrite the text ``old`` to which a pointer in a description leads: the first that does.

    Raises LookupError where none does or ``new`` is longer, and OSError where memory cannot be
    read.
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
