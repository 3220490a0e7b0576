"""Files that other processes see whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

#: How the names of unfinished files end: what a killed process left can be told from the rest.
TEMPORARY_SUFFIX = ".tmp"


@contextlib.contextmanager
def writing_whole(path: Path) -> Iterator[BinaryIO]:
    """Write beside ``path`` and rename when the block ends; readable by this user only (mode 0600).

    Nothing is left beside it where the block raises. Raises OSError; the folder has to exist.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=TEMPORARY_SUFFIX)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
