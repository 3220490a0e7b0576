"""Measurements kept on disk: one small JSON file each, under the key it was measured for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ocl_inductor.log import logger
from ocl_inductor.support.private_folder import PrivateFolder

_log = logger(__name__)


def name_of(key: str) -> str:
    """The file with the measurement for ``key``."""
    return f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def load(folder: PrivateFolder, key: str) -> dict[str, Any] | None:
    """What was kept for ``key``; None where nothing was, or it is damaged."""
    try:
        entry = json.loads(folder.read(name_of(key)))
        if entry["key"] == key and isinstance(entry["value"], dict):
            return dict(entry["value"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # measured again
    return None


def save(folder: PrivateFolder, key: str, value: Mapping[str, Any]) -> None:
    """A folder that cannot be written only means that the next process measures again."""
    try:
        folder.write(name_of(key), json.dumps({"key": key, "value": dict(value)}))
    except OSError as error:
        _log.info("a measurement was not kept: %s", error)
