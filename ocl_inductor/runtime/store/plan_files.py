"""Compiled graphs on disk: ``plans/<key>/<hash of the content>`` below the cache folder.

One key may have several entries: the same graph under different guards on sizes. A file whose
content does not match its name is a miss, and is removed. Reading an entry executes its contents,
so that files count only where no other user can have written them (support/private_folder.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ocl_inductor.log import logger
from ocl_inductor.runtime.store.plan_scan import is_unfinished, plan_name
from ocl_inductor.runtime.store.usage import size_guard
from ocl_inductor.support.private_folder import DistrustedError, PrivateFolder

_log = logger(__name__)


class PlanFiles:
    """The entries below ``folder``. Nothing here raises for what happens on the disk."""

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        """``limit``: bytes of the whole cache; above it, the least recently used are evicted."""
        self.folder = folder
        self.limit = limit
        files = PrivateFolder.at(folder)
        self._files = files if files.usable() else None

    def read(self, key: str) -> Iterator[bytes]:
        """Contents of all intact entries of a key; each counts as used now."""
        of_key = self._of(key)
        for file in of_key.files() if of_key is not None else ():
            if is_unfinished(file.name):
                continue
            try:
                content = file.read()
            except OSError as error:
                _log.info("plan %s not read: %s", file.path, error)
                continue
            if plan_name(content) != file.name:
                _log.info("plan %s is damaged: removed", file.path)
                _remove(file.folder, file.name)
                continue
            with contextlib.suppress(OSError):  # a folder that cannot be written
                file.folder.date_now(file.name)
            yield content

    def write(self, key: str, content: bytes) -> None:
        """Atomic: readers see the whole entry or none."""
        of_key = self._of(key)
        if of_key is None:
            return
        try:
            of_key.write(plan_name(content), content)
        except OSError as error:
            _log.info("plan not kept: %s", error)
            return
        if self.limit is not None:
            size_guard(self.folder.parent / "kernels", self.limit).wrote(len(content))

    def remove(self, key: str, content: bytes) -> None:
        """Remove an entry that turned out to be unusable."""
        of_key = self._of(key)
        if of_key is not None:
            _remove(of_key, plan_name(content))

    def _of(self, key: str) -> PrivateFolder | None:
        """The folder of a key; None where there is no usable one, or the key is no valid name."""
        try:
            return None if self._files is None else self._files.folder(key)
        except DistrustedError as error:  # it came with artefacts of unknown origin
            _log.info("plan neither read nor kept: %s", error)
            return None


def _remove(folder: PrivateFolder, name: str) -> None:
    try:
        folder.remove(name)
    except OSError as error:
        _log.info("plan %s not removed: %s", folder.path / name, error)
