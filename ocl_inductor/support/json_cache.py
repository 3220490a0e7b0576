"""Small values that are cached on disk as JSON, each in a file with the key that it belongs to.

A file that is missing, damaged or of another key is a miss; a folder that cannot be written only
means that the next process finds the value out again.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ocl_inductor.log import logger
from ocl_inductor.support.private_folder import PrivateFolder

_log = logger(__name__)


def name_of(key: str) -> str:
    """The file with the value for ``key``."""
    return f"{hashlib.sha256(key.encode(errors='surrogateescape')).hexdigest()[:24]}.json"


def load(folder: PrivateFolder, key: str, name: str | None = None) -> Any:
    """The value that was saved for ``key``; None on a miss.

    ``name``: of the file, where it is not the key's.
    """
    try:
        entry = json.loads(folder.read(name or name_of(key)))
        return entry["value"] if entry["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(folder: PrivateFolder, key: str, value: object, name: str | None = None) -> None:
    """Save ``value``, which JSON can hold. Never raises on disk errors."""
    try:
        folder.write(name or name_of(key), json.dumps({"key": key, "value": value}))
    except OSError as error:
        _log.info("a value was not cached: %s", error)
