"""What lies in the folder of plans (see plan_files.py); nothing in it is run."""

from __future__ import annotations

import contextlib
import hashlib
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from ocl_inductor.runtime.store_trust import read_own_file
from ocl_inductor.whole_file import TEMPORARY_SUFFIX

#: A temporary file that nobody has written for so long was left by a process that died.
_ABANDONED_SECONDS = 3600.0
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """One entry as the folder shows it; times in seconds since 1970."""

    key: str
    path: Path
    nbytes: int
    last_use: float

    @property
    def damaged(self) -> str:
        """Why it will not be used; "" where it may."""
        try:
            content = read_own_file(self.path)
        except OSError as error:
            return f"it cannot be read: {error}"
        whole = plan_name(content) == self.path.name
        return "" if whole else "its digest does not match its content"


def scan_plans(folder: Path) -> list[StoredGraph]:
    """Every entry, in no order; files that vanish meanwhile are left out."""
    found = []
    for path in _files(folder):
        with contextlib.suppress(OSError):
            here = path.lstat()
            if _NAME.fullmatch(path.name) and stat.S_ISREG(here.st_mode):
                found.append(StoredGraph(path.parent.name, path, here.st_size, here.st_mtime))
    return found


def plan_leftovers(folder: Path, now: float) -> list[Path]:
    """What processes left that died while they wrote."""
    found = []
    for path in filter(is_unfinished, _files(folder)):
        with contextlib.suppress(OSError):
            if abs(now - path.lstat().st_mtime) > _ABANDONED_SECONDS:
                found.append(path)
    return found


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.glob("*/*"))
    except OSError:  # it may not be looked into
        return []


def is_unfinished(path: Path) -> bool:
    """Whether somebody is writing this file, or died while writing; those of former versions of
    this package have names that begin with a dot.
    """
    return path.name.startswith(".") or path.suffix == TEMPORARY_SUFFIX


def plan_name(content: bytes) -> str:
    """The name of the file with this content."""
    return hashlib.sha256(content).hexdigest()
