"""What a range of this process's memory is mapped to (Linux): files, other processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_MAPS = Path("/proc/self/maps")

#: What changes when a file is written or replaced; None: there is none of that name any more.
Stamp = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Mapping:
    """Memory from ``start`` to ``end``. ``shared``: writes of other processes are visible here.

    ``path``: the file that is mapped, or "".
    """

    start: int
    end: int
    shared: bool
    path: str

    @property
    def own(self) -> bool:
        """Whether it is private to this process."""
        return not self.shared and not self.path


def mappings() -> tuple[Mapping, ...]:
    """Mappings that are not private to this process; none where the system does not tell."""
    try:
        lines = _MAPS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ()
    return tuple(m for m in map(_mapping, lines) if not m.own)


def behind(start: int, end: int, known: Iterable[Mapping]) -> tuple[Mapping, ...]:
    """The mappings that a range of memory overlaps."""
    return tuple(m for m in known if m.start < end and start < m.end)


def stamp(path: str) -> Stamp:
    """What changes when a file is written with ``write`` or replaced.

    Writes through a mapping of it change this too, but only the first ones to a page.
    """
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return (
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
        )
    return None


def _mapping(line: str) -> Mapping:
    """``start-end perms offset dev inode path``; a path may have blanks."""
    addresses, permissions, _, _, inode, *path = line.split(maxsplit=5)
    start, end = (int(a, 16) for a in addresses.split("-"))
    # Names in brackets, such as [heap], have no inode.
    file = path[0] if path and inode != "0" else ""
    return Mapping(start, end, permissions[3] == "s", file)
