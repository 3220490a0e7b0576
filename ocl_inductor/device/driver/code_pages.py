"""Release the memory of drivers' code that is not needed for now.

A driver's library contains a whole compiler: when a device is open, 75 MiB of its code and
constants are resident, and again when programs were loaded; 25 MiB of them are needed to run
kernels. These are clean pages of the file, so the system may drop them, and reads pages that are
used again from its file cache, 64 KiB at a time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from ocl_inductor.patches.process.driver_code_pages import drop_pages
from ocl_inductor.patches.switch import enabled

_MAPS = Path("/proc/self/maps")
_SMAPS = Path("/proc/self/smaps")
_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ *(/.*)?")
_OF_FILES = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ +(/.*)$", re.MULTILINE)
#: Smaller mappings are left alone. PoCL maps a library of a few KiB for each kernel, and each new
#: one would have the system list the pages of the whole process again: 10 ms and more.
_LEAST_BYTES = 128 << 10
#: A release takes 5 to 30 ms, with the number of mappings, and code that is needed again is read
#: again. A program of many small graphs asks twice for each: it gets this share of the time, and
#: these seconds before that.
_SHARE, _AT_ONCE_SECONDS = 0.05, 0.3


@dataclass(frozen=True, slots=True)
class _Mapping:
    """A line of /proc/self/maps: a part of a file in memory."""

    start: int
    end: int
    access: str
    path: str

    @classmethod
    def of(cls, start: str, end: str, access: str, path: str) -> _Mapping:
        return cls(int(start, 16), int(end, 16), access, path)


class DriverCode:
    """The code and constants of libraries that were mapped between ``__init__`` and ``release``."""

    def __init__(self) -> None:
        self._before = mapped_libraries()
        self._seen: frozenset[_Mapping] = frozenset()
        self._clean: list[_Mapping] = []
        #: Seconds that releases may take now, and since when.
        self._budget, self._since = _AT_ONCE_SECONDS, time.monotonic()

    def release(self) -> None:
        """Drop it, unless that has been done too often. No effect where the system does not show
        how files are mapped.
        """
        if not enabled("driver_code_pages"):
            return
        start = time.monotonic()
        earned = _SHARE * (start - self._since)
        self._budget, self._since = min(self._budget + earned, _AT_ONCE_SECONDS), start
        if self._budget > 0:
            self._release()
            self._budget -= time.monotonic() - start

    def _release(self) -> None:
        mappings = _mappings()
        files = _libraries(mappings) - self._before
        ours = frozenset(m for m in mappings if m.end - m.start >= _LEAST_BYTES and m.path in files)
        # Drivers load some of their libraries on demand. A mapping whose address or protection
        # changed is examined again: its old address may hold other data.
        if ours != self._seen:
            self._seen, self._clean = ours, list(_clean(ours))
        if not self._clean:
            return
        drop_pages((m.start, m.end) for m in self._clean)


def mapped_libraries() -> set[str]:
    """Paths of the files whose code is in this process; none where the system does not show it."""
    return _libraries(_mappings())


def _mappings() -> list[_Mapping]:
    try:
        text = _MAPS.read_text()
    except OSError:
        return []
    return [_Mapping.of(*fields) for fields in _OF_FILES.findall(text)]


def _libraries(mappings: Iterable[_Mapping]) -> set[str]:
    """Files with code."""
    return {m.path for m in mappings if "x" in m.access}


def _clean(ours: Set[_Mapping]) -> Iterator[_Mapping]:
    """The read-only mappings among ``ours`` that were never written.

    Pages that were relocated at load time, and made read-only then, would be lost; they may be in
    swap.
    """
    candidates = {m for m in ours if m.access in ("r-xp", "r--p")}
    mapping: _Mapping | None = None
    private = 0
    for line in _SMAPS.read_text().splitlines() if candidates else ():
        if head := _HEAD.fullmatch(line):
            mapping = _Mapping.of(*head.groups()) if head[4] else None
            private = 0
        elif line.startswith(("Private_Dirty:", "Anonymous:", "Swap:")):
            private += int(line.split()[1])
        elif line.startswith("VmFlags:") and mapping in candidates and not private:
            yield mapping
