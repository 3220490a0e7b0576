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


def write_whole(path: Path, content: bytes | str) -> None:
    """Write beside ``path`` and rename; readable by this user only (mode 0600).

    Nothing is left beside it, whatever happens. Raises OSError; the folder has to exist.
    """
    with writing_whole(path) as out:
        out.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing_whole(path: Path) -> Iterator[BinaryIO]:
    """The same in pieces: what was written is at ``path`` when the block ends without exception."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=TEMPORARY_SUFFIX)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
