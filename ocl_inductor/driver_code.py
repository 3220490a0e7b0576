"""Give back the memory of drivers' code that has run for the last time, for now.

A driver's library contains a whole compiler: when a device is open, 75 MiB of its code and
constants are resident, and again when programs were loaded; 25 MiB of them are needed to run
kernels. These are clean copies of the file, so the system may drop them, and reads back what is
used again, 64 KiB at a time from its file cache.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_SMAPS = Path("/proc/self/smaps")
_MADV_DONTNEED = 4
_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+\s*(.*)")


class DriverCode:
    """The code and constants of libraries that were mapped between ``__init__`` and ``release``."""

    def __init__(self) -> None:
        self._before = _mapped_files()
        self._files: set[str] = set()
        self._ranges: list[tuple[int, int]] = []

    def release(self) -> None:
        """Drop it. Nothing happens where the system does not show how files are mapped."""
        files = _mapped_files() - self._before
        if files != self._files:  # drivers load parts of theirs when they are needed
            self._files, self._ranges = files, list(_clean(files))
        if not self._ranges:
            return
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for start, size in self._ranges:
            advise(start, size, _MADV_DONTNEED)


def _mapped_files() -> set[str]:
    try:
        lines = _MAPS.read_text().splitlines()
    except OSError:
        return set()
    return {found[4] for line in lines if (found := _HEAD.fullmatch(line)) and "x" in found[3]}


def _clean(files: set[str]) -> Iterator[tuple[int, int]]:
    """Start and size of each read-only mapping of these files that nothing was written to.

    What was relocated at the start, and made read-only then, would be lost.
    """
    mapping, private = None, 0
    for line in _SMAPS.read_text().splitlines() if files else ():
        head = _HEAD.fullmatch(line)
        if head is not None:
            read_only = head[3] in ("r-xp", "r--p") and head[4].startswith("/")
            wanted = read_only and head[4] in files
            mapping = (int(head[1], 16), int(head[2], 16)) if wanted else None
            private = 0
        elif line.startswith(("Private_Dirty:", "Anonymous:")):
            private += int(line.split()[1])
        elif line.startswith("VmFlags:") and mapping is not None and private == 0:
            yield mapping[0], mapping[1] - mapping[0]
