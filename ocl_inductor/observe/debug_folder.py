"""The debug folder: one numbered file for each stage of each graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ocl_inductor.log import logger
from ocl_inductor.settings import Settings

_log = logger(__name__)


@dataclass(slots=True)
class DebugFolder:
    """Writes ``NN_stage`` files below ``folder``; does nothing without a folder."""

    folder: Path | None
    _count: itertools.count[int] = field(default_factory=itertools.count)

    @classmethod
    def for_settings(cls, settings: Settings) -> DebugFolder:
        if settings.debug_dir is None:
            return cls(None)
        for number in itertools.count():
            folder = settings.debug_dir / f"graph_{number}"
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                _log.warning("no debug folder: %s", error)
                return cls(None)
            return cls(folder)
        raise AssertionError("unreachable")

    def dump(self, stage: str, text: Callable[[], str]) -> None:
        """Write ``text()``; it is only called when a folder is wanted."""
        if self.folder is None:
            return
        name = stage if "." in stage else f"{stage}.txt"
        (self.folder / f"{next(self._count):02d}_{name}").write_text(text() + "\n")
