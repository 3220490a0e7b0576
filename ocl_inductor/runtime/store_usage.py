"""What lies in the store, what it was used for, and the limit on its size, which plans count in.

The least recently used entries go first. A time of use that lies in the future (a clock that was
wrong once) counts as now, and is written down as now, so that it ages from there on.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ocl_inductor.log import logger
from ocl_inductor.runtime.plan_scan import StoredGraph, plan_leftovers, scan_plans
from ocl_inductor.runtime.store import (
    ENTRY_SUFFIX,
    LOCK_SUFFIX,
    USED_SUFFIX,
    KernelStore,
)
from ocl_inductor.runtime.store_entry import KEY_PATTERN
from ocl_inductor.whole_file import TEMPORARY_SUFFIX

_log = logger(__name__)
#: How much of the limit is left after eviction, so that not every new kernel evicts.
_KEPT_SHARE = 0.9
#: A temporary file that nobody has written for so long was left by a process that died.
_ABANDONED_SECONDS = 3600.0
#: Other processes write too: look at the folder again after writing this share of the limit.
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
    """Every entry, in no order; files that vanish meanwhile are left out."""
    found: list[Stored] = []
    for shard, files in _shards(store):
        for name, entry in files.items():
            key = shard.name + name.removesuffix(ENTRY_SUFFIX)
            if not name.endswith(ENTRY_SUFFIX) or not KEY_PATTERN.fullmatch(key):
                continue
            used = files.get(name.removesuffix(ENTRY_SUFFIX) + USED_SUFFIX)
            try:
                here = entry.stat(follow_symlinks=False)
                mark = used.stat(follow_symlinks=False) if used is not None else None
            except OSError:
                continue
            hits = mark.st_size if mark is not None else 0
            last = max(here.st_mtime, mark.st_mtime if mark is not None else 0.0)
            found.append(Stored(key, Path(entry.path), here.st_size, hits, last))
    return found


def leftovers(store: KernelStore, now: float) -> list[Path]:
    """Files that serve nothing: of processes that died, of removed entries, of older formats."""
    found: list[Path] = []
    for shard, files in _shards(store):
        for name, entry in files.items():
            stem, suffix = os.path.splitext(name)
            if suffix == ENTRY_SUFFIX and KEY_PATTERN.fullmatch(shard.name + stem):
                continue
            if suffix == LOCK_SUFFIX or (suffix == USED_SUFFIX and stem + ENTRY_SUFFIX in files):
                continue
            try:
                here = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            alive = suffix in (TEMPORARY_SUFFIX, USED_SUFFIX)
            if alive and abs(now - here.st_mtime) < _ABANDONED_SECONDS:
                continue  # perhaps being written
            if not entry.is_dir(follow_symlinks=False):
                found.append(Path(entry.path))
    return found


def _shards(store: KernelStore) -> Iterator[tuple[Path, dict[str, os.DirEntry[str]]]]:
    if store.folder is None:
        return
    for shard in _listed(store.folder):
        if len(shard.name) == 2 and shard.is_dir(follow_symlinks=False):
            yield Path(shard.path), {e.name: e for e in _listed(Path(shard.path))}


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda e: e.name)
    except OSError:
        return []


def evict(store: KernelStore, limit: int) -> tuple[int, int]:
    """Remove the least recently used entries and plans where they are more than ``limit`` bytes.

    Returns the number of entries removed, kernels and plans, and the bytes that remain.
    """
    now = time.time()
    folder = plans_beside(store)
    entries: list[Stored | StoredGraph] = [*scan(store), *scan_plans(folder)]
    total = sum(e.nbytes for e in entries)
    removed = 0
    if total > limit:
        for path in (*leftovers(store, now), *plan_leftovers(folder, now)):
            with contextlib.suppress(OSError):
                path.unlink()
        for entry in entries:
            if entry.last_use > now:
                _date_now(entry)
        for entry in sorted(entries, key=lambda e: min(e.last_use, now)):
            if total <= limit * _KEPT_SHARE:
                break
            if isinstance(entry, Stored):
                store.remove(entry.key)
            else:
                with contextlib.suppress(OSError):
                    entry.path.unlink()
            total -= entry.nbytes
            removed += 1
        _log.info("%d entries evicted from %s, %d bytes remain", removed, store.folder, total)
    return removed, total


def plans_beside(store: KernelStore) -> Path:
    """The folder of plans in the cache that the store is part of."""
    return Path(os.devnull) if store.folder is None else store.folder.parent / "plans"


def _date_now(entry: Stored | StoredGraph) -> None:
    for path in (entry.path, entry.path.with_suffix(USED_SUFFIX)):
        with contextlib.suppress(OSError):
            os.utime(path)


@dataclass(slots=True)
class SizeGuard:
    """Evicts when this process has reason to think that the store is over its limit."""

    store: KernelStore
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
            removed, self.seen = evict(self.store, self.limit)
            self.written = 0
            return removed
