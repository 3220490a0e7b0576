"""Compiled graphs on disk: ``plans/<key>/<hash of the content>`` below the cache folder.

One key may have several entries: the same graph under different guards on sizes. A file whose
content is not what its name says is a miss, and is removed. Reading an entry runs what is in it, so
that files count only where no other user can have written them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ocl_inductor.log import logger
from ocl_inductor.runtime.plan_scan import is_unfinished, plan_name
from ocl_inductor.runtime.store import KernelStore
from ocl_inductor.runtime.store_trust import distrust, make_private, read_own_file, warn_once
from ocl_inductor.runtime.store_usage import evict
from ocl_inductor.whole_file import write_whole

_log = logger(__name__)


class PlanFiles:
    """The entries below ``folder``. Nothing here raises for what happens on the disk."""

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        """``limit``: bytes of the whole cache; beyond, what was not used for longest goes."""
        self.folder = folder
        self.limit = limit
        self.distrusted = distrust(folder)
        if self.distrusted:
            warn_once(
                f"Plans are neither read from nor kept in the cache: {self.distrusted}. Remove it, "
                "or name another folder with OCL_INDUCTOR_CACHE_DIR."
            )

    def read(self, key: str) -> Iterator[bytes]:
        """Contents of all intact entries of a key; each counts as used now."""
        if self.distrusted:
            return
        folder = self.folder / key
        try:
            paths = sorted(p for p in folder.iterdir() if not is_unfinished(p))
        except OSError:
            return
        for path in paths:
            try:
                content = read_own_file(path)
            except OSError as error:
                _log.info("plan %s not read: %s", path, error)
                continue
            if plan_name(content) != path.name:
                _log.info("plan %s is damaged: removed", path)
                self._remove(path)
                continue
            with contextlib.suppress(OSError):  # a folder that cannot be written
                os.utime(path)
            yield content

    def write(self, key: str, content: bytes) -> None:
        """Atomic: readers see the whole entry or none."""
        if self.distrusted:
            return
        folder = self.folder / key
        try:
            make_private(self.folder)
            folder.mkdir(exist_ok=True, mode=0o700)
            write_whole(folder / plan_name(content), content)
        except OSError as error:
            _log.info("plan not kept: %s", error)
        if self.limit is not None:
            evict(KernelStore(self.folder.parent / "kernels"), self.limit)

    def remove(self, key: str, content: bytes) -> None:
        """Forget an entry that turned out to be of no use."""
        self._remove(self.folder / key / plan_name(content))

    def _remove(self, path: Path) -> None:
        try:
            path.unlink()
        except OSError as error:
            _log.info("plan %s not removed: %s", path, error)
