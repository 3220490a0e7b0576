"""The folder of compiled kernels: many processes read, write and evict at the same time.

::

    <cache_dir>/kernels/ab/cdef….kernel    an entry (entry.py), named by its key
    <cache_dir>/kernels/ab/cdef….used      one byte for each hit; its time is that of the last use
    <cache_dir>/kernels/ab/c.lock          held by the process that builds a kernel named abc…

Entries appear atomically, by renaming, and are never changed. Anything else found is a miss.
Without a usable folder (support/private_folder.py), everything here does nothing.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ocl_inductor.log import logger
from ocl_inductor.runtime.store.entry import DamagedEntryError, Entry, decode, encode
from ocl_inductor.support.private_folder import PrivateFolder, warn_once

_log = logger(__name__)
ENTRY_SUFFIX = ".kernel"
USED_SUFFIX = ".used"
LOCK_SUFFIX = ".lock"
#: Most seconds that a process stopped during a build can block the others.
BUILD_WAIT_SECONDS = 30.0


class KernelStore:
    """Entries below ``folder``, which lies in the root of a cache; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.files = None if folder is None else PrivateFolder.at(folder)
        if self.files is not None and not self.files.usable():
            self.files = None

    @property
    def folder(self) -> Path | None:
        return None if self.files is None else self.files.path

    def path(self, key: str) -> Path:
        """The path of an entry; for display."""
        shard, name = self._place(key)
        return shard.path / name

    def _place(self, key: str, suffix: str = ENTRY_SUFFIX) -> tuple[PrivateFolder, str]:
        assert self.files is not None
        return self.files.folder(key[:2]), f"{key[2:]}{suffix}"

    # -- reading ---------------------------------------------------------------------------

    def read(self, key: str) -> Entry | None:
        """The entry, verified; None where there is none.

        Raises:
            DamagedEntryError: there is a file that cannot be used.
        """
        data = self.read_bytes(key)
        return None if data is None else decode(key, data)

    def read_bytes(self, key: str) -> bytes | None:
        """The entry's file as it is, not verified (``decode`` does that).

        Raises:
            DamagedEntryError: there is a file, and it cannot be read or is not ours.
        """
        file = self.open(key)
        if file is None:
            return None
        with file:
            try:
                return file.read()
            except OSError as error:
                raise DamagedEntryError(f"it cannot be read: {error}") from None

    def open(self, key: str) -> BinaryIO | None:
        """The entry's file; None where there is none.

        Raises:
            DamagedEntryError: as ``read_bytes``.
        """
        if self.files is None:
            return None
        try:
            shard, name = self._place(key)
            return shard.open(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DamagedEntryError(f"it cannot be read: {error}") from None

    def has(self, key: str) -> bool:
        """Whether there is a file of ours, intact or not."""
        try:
            file = self.open(key)
        except DamagedEntryError:
            return False
        if file is not None:
            file.close()
        return file is not None

    def touch(self, key: str) -> None:
        """Record a hit. Best effort: appending one byte never loses another process's."""
        if self.files is not None:
            shard, name = self._place(key, USED_SUFFIX)
            with contextlib.suppress(OSError):
                shard.append(name, b".")

    def date_now(self, key: str) -> None:
        """Mark an entry as used now, without a hit. Best effort."""
        for suffix in (ENTRY_SUFFIX, USED_SUFFIX):
            with contextlib.suppress(OSError):
                shard, name = self._place(key, suffix)
                shard.date_now(name)

    # -- writing ---------------------------------------------------------------------------

    def write(self, entry: Entry) -> int:
        """Store an entry; bytes written, 0 where it could not be stored (logged once a process)."""
        return self._write(entry.key, encode(entry))

    def write_bytes(self, key: str, data: bytes) -> int:
        """Store another store's ``read_bytes``; bytes written, 0 where it could not be stored.

        Raises:
            DamagedEntryError: the bytes are not a whole entry of this key.
        """
        decode(key, data)
        return self._write(key, data)

    def _write(self, key: str, data: bytes) -> int:
        """Atomic: readers see the whole file or none."""
        if self.files is None:
            return 0
        try:
            shard, name = self._place(key)
            shard.write(name, data)
        except OSError as error:
            warn_once(f"Kernels are compiled but not kept in {self.folder}: {_why(error)}.")
            return 0
        return len(data)

    def remove(self, key: str) -> None:
        """Remove an entry; another process that reads it now still gets all of it, or a miss."""
        if self.files is not None:
            for suffix in (ENTRY_SUFFIX, USED_SUFFIX):
                with contextlib.suppress(OSError):
                    shard, name = self._place(key, suffix)
                    shard.remove(name)

    @contextlib.contextmanager
    def building(self, keys: Iterable[str]) -> Iterator[None]:
        """Held by one process at a time, so that the others find the kernels when they are built.

        Each kernel has its lock: processes that miss different kernels of one plan, because they
        looked while another was writing them, still wait for each other. All take their locks in
        the same order. Never fails: where the folder cannot be locked, or a holder takes too long,
        all build.
        """
        with contextlib.ExitStack() as stack:
            if self.files is not None:
                deadline = time.monotonic() + BUILD_WAIT_SECONDS
                try:
                    for shard, name in sorted({self._lock(key) for key in keys}):
                        wait = max(deadline - time.monotonic(), 0.0)
                        stack.enter_context(self.files.folder(shard).locked(name, wait))
                except OSError as error:  # TimeoutError is one
                    _log.info("kernels are built without all their locks: %s", error)
            yield

    def _lock(self, key: str) -> tuple[str, str]:
        """One of 4096, so that threads that build eight kernels each seldom share one."""
        return key[:2], f"{key[2]}{LOCK_SUFFIX}"


def _why(error: OSError) -> str:
    reasons = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "no permission to write there",
        errno.EPERM: "no permission to write there",
    }
    return reasons.get(error.errno or 0, str(error))
