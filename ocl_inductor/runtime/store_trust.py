"""Whether files in a folder may be run as kernels: ours, and nobody else's to write.

A binary is code. Its digest shows damage, not malice: whoever can write the folder can write a
digest too. So the folder and each file must belong to the user of this process, and others must
not be able to write them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ocl_inductor.log import logger

_log = logger(__name__)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


#: Each message, and the call that was the first with it.
_said: dict[str, object] = {}


def warn_once(message: str) -> None:
    """A warning for the user's log, the same one only once a process, whichever threads have it."""
    call = object()
    if _said.setdefault(message, call) is call:
        _log.warning("%s", message)


def make_private(folder: Path) -> None:
    """Make ``folder`` and its parent with mode 0700 where they are missing.

    Raises OSError. Folders above these get the user's usual mode.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)


def distrust(folder: Path) -> str:
    """Why files in ``folder`` must not be used; "" where they may, or it does not exist.

    A folder of ours that others may read is made private.
    """
    try:
        found = folder.stat()
    except OSError:
        return ""  # missing, or not to be reached: nothing will be read from it
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder"
    if os.name != "posix":
        return ""  # folders below the user's profile are private
    reason = _foreign(found)
    if reason:
        return f"{folder} {reason}"
    if stat.S_IMODE(found.st_mode) & 0o077:
        try:
            folder.chmod(0o700)
        except OSError as error:
            _log.info("%s could not be made private: %s", folder, error)
    return ""


def read_own_file(path: Path) -> bytes:
    """The content of a regular file that is ours alone to write.

    Raises:
        OSError: it cannot be read; PermissionError too where it is not ours, or not a plain file.
    """
    # Without following links, and without waiting where a pipe lies in the place of a file.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError(f"{path} is not a plain file")
        reason = _foreign(found) if os.name == "posix" else ""
        if reason:
            raise PermissionError(f"{path} {reason}")
        return file.read()


def _foreign(found: os.stat_result) -> str:
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if found.st_mode & _OTHERS_WRITE:
        return "can be written by other users"
    return ""
