"""Folders in the system's temporary one, removed by a later process if need be.

The process that makes one removes it, unless it is killed. So each has a file that its user keeps
locked, and folders whose file is not locked are removed when another one is made.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

import filelock

_PREFIX = "ocl_inductor-"
_LOCK = "in_use"
#: Between making a folder and locking it a process starts, on a machine that may be busy.
_YOUNG_SECONDS = 600.0


def make_folder() -> Path:
    """A new folder, this user's alone. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def hold(folder: Path) -> filelock.BaseFileLock:
    """Keep ``folder`` from being removed for as long as this process lives, and holds the result.

    Where files cannot be locked, it stays for a while only. Never raises.
    """
    lock = filelock.FileLock(folder / _LOCK, timeout=0)
    with contextlib.suppress(OSError, NotImplementedError):
        lock.acquire()
    return lock


def remove_abandoned(place: Path) -> None:
    """Remove those folders in ``place`` that belong to this user and are not held.

    Young ones stay: their process may not have locked them yet. Never raises.
    """
    now = time.time()
    with contextlib.suppress(OSError):
        for folder in place.glob(f"{_PREFIX}*"):
            with contextlib.suppress(
                OSError, NotImplementedError
            ):  # a lock's Timeout is an OSError
                found = folder.lstat()
                if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                    continue
                if abs(now - found.st_mtime) < _YOUNG_SECONDS:
                    continue
                with filelock.FileLock(folder / _LOCK, timeout=0):
                    shutil.rmtree(folder, ignore_errors=True)
