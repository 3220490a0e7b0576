"""The folder of compiled kernels: many processes read, write and evict at the same time.

::

    <cache_dir>/kernels/ab/cdef….kernel    an entry (store_entry.py), named by its key
    <cache_dir>/kernels/ab/cdef….used      one byte for each hit; its time is that of the last use
    <cache_dir>/kernels/ab/c.lock          held by the process that builds a kernel named abc…

Entries appear whole, by renaming, and are never changed. Whatever else is found is a miss. Without
a folder that can be used, everything here does nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import filelock

from ocl_inductor.log import logger
from ocl_inductor.runtime.store_entry import DamagedEntryError, Entry, decode, encode
from ocl_inductor.runtime.store_trust import distrust, make_private, read_own_file, warn_once
from ocl_inductor.whole_file import write_whole

_log = logger(__name__)
ENTRY_SUFFIX = ".kernel"
USED_SUFFIX = ".used"
LOCK_SUFFIX = ".lock"
#: A process that was stopped while it builds must not stop the others for longer.
BUILD_WAIT_SECONDS = 30.0


class KernelStore:
    """Entries below ``folder``; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        if folder is not None:
            reason = distrust(folder)
            if reason:
                warn_once(
                    f"Kernels are neither read from nor kept in the cache: {reason}. Remove it, or "
                    "name another folder with OCL_INDUCTOR_CACHE_DIR."
                )
                folder = None
        self.folder = folder

    def path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key[2:]}{ENTRY_SUFFIX}"

    # -- reading ---------------------------------------------------------------------------

    def read(self, key: str) -> Entry | None:
        """The entry, proved; None where there is none.

        Raises:
            DamagedEntryError: there is a file that cannot be used.
        """
        data = self.read_bytes(key)
        return None if data is None else decode(key, data)

    def read_bytes(self, key: str) -> bytes | None:
        """The entry's file as it is, not proved (``decode`` does that).

        Raises:
            DamagedEntryError: there is a file, and it cannot be read or is not ours.
        """
        if self.folder is None:
            return None
        try:
            return read_own_file(self.path(key))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DamagedEntryError(f"it cannot be read: {error}") from None

    def touch(self, key: str) -> None:
        """Remember a hit. Best effort: appending one byte never loses another process's."""
        if self.folder is None:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        with contextlib.suppress(OSError):
            handle = os.open(self.path(key).with_suffix(USED_SUFFIX), flags, 0o600)
            try:
                os.write(handle, b".")
            finally:
                os.close(handle)

    # -- writing ---------------------------------------------------------------------------

    def write(self, entry: Entry) -> int:
        """Keep an entry; bytes written, 0 where it could not be kept (said once a process)."""
        return self._write(entry.key, encode(entry))

    def write_bytes(self, key: str, data: bytes) -> int:
        """Keep what ``read_bytes`` gave elsewhere; bytes written, 0 where it could not be kept.

        Raises:
            DamagedEntryError: the bytes are not a whole entry of this key.
        """
        decode(key, data)
        return self._write(key, data)

    def _write(self, key: str, data: bytes) -> int:
        """Atomic: readers see the whole file or none."""
        if self.folder is None:
            return 0
        path = self.path(key)
        try:
            try:
                _replace(path, data)
            except FileNotFoundError:  # the folder was deleted at this very moment
                _replace(path, data)
        except OSError as error:
            warn_once(f"Kernels are compiled but not kept in {self.folder}: {_why(error)}.")
            return 0
        return len(data)

    def remove(self, key: str) -> None:
        """Forget an entry; another process that reads it now still gets it whole, or a miss."""
        if self.folder is not None:
            path = self.path(key)
            for victim in (path, path.with_suffix(USED_SUFFIX)):
                with contextlib.suppress(OSError):
                    victim.unlink()

    @contextlib.contextmanager
    def building(self, keys: Iterable[str]) -> Iterator[None]:
        """Held by one process at a time, so that the others find the kernels when they are built.

        Each kernel has its lock: processes that miss different kernels of one plan, because they
        looked while another was writing them, still wait for each other. All take theirs in the
        same order. Never fails: where the folder cannot be locked, or a holder takes too long, all
        build.
        """
        with contextlib.ExitStack() as stack:
            if self.folder is not None:
                deadline = time.monotonic() + BUILD_WAIT_SECONDS
                try:
                    make_private(self.folder)
                    for path in sorted({self._lock(key) for key in keys}):
                        path.parent.mkdir(exist_ok=True, mode=0o700)
                        wait = max(deadline - time.monotonic(), 0.0)
                        stack.enter_context(filelock.FileLock(path, timeout=wait, mode=0o600))
                except (OSError, NotImplementedError) as error:  # Timeout is an OSError
                    _log.info("kernels are built without all their locks: %s", error)
            yield

    def _lock(self, key: str) -> Path:
        """One of 4096, so that threads that build eight kernels each seldom share one."""
        return self.path(key).parent / f"{key[2]}{LOCK_SUFFIX}"


def _replace(path: Path, data: bytes) -> None:
    make_private(path.parent.parent)
    path.parent.mkdir(exist_ok=True, mode=0o700)
    write_whole(path, data)


def _why(error: OSError) -> str:
    reasons = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "no permission to write there",
        errno.EPERM: "no permission to write there",
    }
    return reasons.get(error.errno or 0, str(error))
