"""Files that other processes see whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

#: How the names of unfinished files end: what a killed process left can be told from the rest.
TEMPORARY_SUFFIX = ".tmp"


def write_whole(path: Path, content: bytes | str) -> None:
    """Write beside ``path`` and rename; readable by this user only (mode 0600).

    Nothing is left beside it, whatever happens. Raises OSError; the folder has to exist.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=TEMPORARY_SUFFIX)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
