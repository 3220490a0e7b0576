"""Measurements kept on disk: one small JSON file each, under the key it was measured for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ocl_inductor.log import logger
from ocl_inductor.whole_file import write_whole

_log = logger(__name__)


def path_of(folder: Path, key: str) -> Path:
    """Where the measurement for ``key`` lies."""
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def load(folder: Path, key: str) -> dict[str, Any] | None:
    """What was kept for ``key``; None where nothing was, or it is damaged."""
    try:
        entry = json.loads(path_of(folder, key).read_text())
        if entry["key"] == key and isinstance(entry["value"], dict):
            return dict(entry["value"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # measured again
    return None


def save(folder: Path, key: str, value: Mapping[str, Any]) -> None:
    """A folder that cannot be written only means that the next process measures again."""
    path = path_of(folder, key)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, json.dumps({"key": key, "value": dict(value)}))
    except OSError as error:
        _log.info("a measurement was not kept: %s", error)
