"""The contents of the store, their use, and the limit on its size, which includes plans.

The least recently used entries are evicted first. A time of use in the future (a clock that was
wrong once) counts as now, and is rewritten as now, so that it ages from there on.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ocl_inductor.log import logger
from ocl_inductor.runtime.store.entry import KEY_PATTERN
from ocl_inductor.runtime.store.kernel_store import (
    ENTRY_SUFFIX,
    LOCK_SUFFIX,
    USED_SUFFIX,
    KernelStore,
)
from ocl_inductor.runtime.store.plan_scan import StoredGraph, plan_leftovers, scan_plans
from ocl_inductor.support.atomic_file import TEMPORARY_SUFFIX
from ocl_inductor.support.private_folder import FoundFile, PrivateFolder

_log = logger(__name__)
#: How much of the limit is left after eviction, so that not every new kernel evicts.
_KEPT_SHARE = 0.9
#: A temporary file that was not written for so long was left by a process that died.
_ABANDONED_SECONDS = 3600.0
#: Other processes write too: scan the folder again after writing this share of the limit.
_LOOK_SHARE = 1 / 32


@dataclass(frozen=True, slots=True)
class Stored:
    """One entry as the folder shows it; times in seconds since 1970."""

    key: str
    path: Path
    nbytes: int
    hits: int
    last_use: float


def scan(store: KernelStore) -> list[Stored]:
    """Every entry, unordered; files that vanish during the scan are skipped."""
    found: list[Stored] = []
    for shard, files in _shards(store):
        for name, file in files.items():
            key = shard.names[-1] + name.removesuffix(ENTRY_SUFFIX)
            if not name.endswith(ENTRY_SUFFIX) or not KEY_PATTERN.fullmatch(key):
                continue
            used = files.get(name.removesuffix(ENTRY_SUFFIX) + USED_SUFFIX)
            hits = used.nbytes if used is not None else 0
            last = max(file.modified, used.modified if used is not None else 0.0)
            found.append(Stored(key, file.path, file.nbytes, hits, last))
    return found


def leftovers(store: KernelStore, now: float) -> list[FoundFile]:
    """Unused files: of processes that died, of removed entries, of older formats."""
    found: list[FoundFile] = []
    for shard, files in _shards(store):
        for name, file in files.items():
            stem, suffix = os.path.splitext(name)
            if suffix == ENTRY_SUFFIX and KEY_PATTERN.fullmatch(shard.names[-1] + stem):
                continue
            if suffix == LOCK_SUFFIX or (suffix == USED_SUFFIX and stem + ENTRY_SUFFIX in files):
                continue
            alive = suffix in (TEMPORARY_SUFFIX, USED_SUFFIX)
            if alive and abs(now - file.modified) < _ABANDONED_SECONDS:
                continue  # perhaps being written
            found.append(file)
    return found


def _shards(store: KernelStore) -> Iterator[tuple[PrivateFolder, dict[str, FoundFile]]]:
    for shard in store.files.folders() if store.files is not None else ():
        if len(shard.names[-1]) == 2:
            yield shard, {file.name: file for file in shard.files()}


def evict(store: KernelStore, limit: int) -> tuple[int, int]:
    """Remove the least recently used entries and plans where they are more than ``limit`` bytes.

    Returns the number of entries removed, kernels and plans, and the bytes that remain.
    """
    now = time.time()
    folder = plans_beside(store)
    plans = [] if folder is None else scan_plans(folder)
    entries: list[Stored | StoredGraph] = [*scan(store), *plans]
    total = sum(e.nbytes for e in entries)
    removed = 0
    if total > limit:
        unfinished = [] if folder is None else plan_leftovers(folder, now)
        for file in (*leftovers(store, now), *unfinished):
            with contextlib.suppress(OSError):
                file.remove()
        for entry in entries:
            if entry.last_use > now:
                _date_now(store, entry)
        for entry in sorted(entries, key=lambda e: min(e.last_use, now)):
            if total <= limit * _KEPT_SHARE:
                break
            if isinstance(entry, Stored):
                store.remove(entry.key)
            else:
                with contextlib.suppress(OSError):
                    entry.file.remove()
            total -= entry.nbytes
            removed += 1
        _log.info("%d entries evicted from %s, %d bytes remain", removed, store.folder, total)
    return removed, total


def plans_beside(store: KernelStore) -> PrivateFolder | None:
    """The folder of plans in the cache that the store is part of; None for a store without one."""
    return None if store.files is None else PrivateFolder(store.files.root).folder("plans")


def _date_now(store: KernelStore, entry: Stored | StoredGraph) -> None:
    if isinstance(entry, Stored):
        store.date_now(entry.key)
    else:
        with contextlib.suppress(OSError):
            entry.file.folder.date_now(entry.file.name)


@dataclass(slots=True)
class SizeGuard:
    """Evicts when this process has reason to think that the store is over its limit.

    ``folder``: of the kernels; plans beside it count as well. A scan takes 24 µs for each file, so
    that one for each compiled graph would be a large part of compiling beside a full cache.
    """

    folder: Path | None
    limit: int
    written: int = 0
    seen: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wrote(self, nbytes: int) -> int:
        """Call after writing entries; returns how many were evicted."""
        with self._lock:
            if nbytes == 0:
                return 0
            self.written += nbytes
            due = (
                self.seen is None
                or self.seen + self.written > self.limit
                or self.written > self.limit * _LOOK_SHARE
            )
            if not due:
                return 0
            removed, self.seen = evict(KernelStore(self.folder), self.limit)
            self.written = 0
            return removed


@functools.cache
def size_guard(folder: Path | None, limit: int) -> SizeGuard:
    """The guard of a folder of kernels and of the plans beside it: one in a process."""
    return SizeGuard(folder, limit)
