"""The contents of the folder of plans (see plan_files.py); nothing in it is executed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from ocl_inductor.support.atomic_file import TEMPORARY_SUFFIX
from ocl_inductor.support.private_folder import FoundFile, PrivateFolder

#: A temporary file that was not written for so long was left by a process that died.
_ABANDONED_SECONDS = 3600.0
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """One entry as the folder shows it; times in seconds since 1970."""

    key: str
    file: FoundFile

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def nbytes(self) -> int:
        return self.file.nbytes

    @property
    def last_use(self) -> float:
        return self.file.modified

    @property
    def damaged(self) -> str:
        """Why it will not be used; "" where it may."""
        try:
            content = self.file.read()
        except OSError as error:
            return f"it cannot be read: {error}"
        whole = plan_name(content) == self.file.name
        return "" if whole else "its digest does not match its content"


def scan_plans(folder: PrivateFolder) -> list[StoredGraph]:
    """Every entry, unordered; files that vanish during the scan are skipped."""
    return [
        StoredGraph(of_key.names[-1], file)
        for of_key in folder.folders()
        for file in of_key.files()
        if file.plain and _NAME.fullmatch(file.name)
    ]


def plan_leftovers(folder: PrivateFolder, now: float) -> list[FoundFile]:
    """Leftover files of processes that died while writing."""
    return [
        file
        for of_key in folder.folders()
        for file in of_key.files()
        if is_unfinished(file.name) and abs(now - file.modified) > _ABANDONED_SECONDS
    ]


def is_unfinished(name: str) -> bool:
    """Whether a process is writing this file, or died while writing it; temporary files of former
    versions of this package have names that begin with a dot.
    """
    return name.startswith(".") or name.endswith(TEMPORARY_SUFFIX)


def plan_name(content: bytes) -> str:
    """The name of the file with this content."""
    return hashlib.sha256(content).hexdigest()
