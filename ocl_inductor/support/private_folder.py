"""A folder of the cache: ours alone, and reached without following links.

What is kept there is run: kernels are code, plans are pickles, and what drivers answered names the
libraries that are opened. A digest shows damage, not malice: a user who can write the folder can
write a digest too. So everything in the cache is read, written, listed and removed through a
``PrivateFolder``, and one rule holds for all of it:

- The root and each folder below it belong to the user of this process, others cannot write them,
  and none of them is a link. We make them with mode 0700.
- A file counts only if it is a plain one, belongs to that user and no other user can write it.
- A name is one part of a path, of characters that lead nowhere and that a terminal can show.

Folders are opened one below the other and stay open during an operation, so that what was checked
is what is used. Nothing is kept open between operations: the cache may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ocl_inductor.log import logger
from ocl_inductor.support.atomic_file import TEMPORARY_SUFFIX

_log = logger(__name__)

#: The folders below the root. Whatever else lies there is not ours ("icd": of former versions).
KINDS = frozenset(
    ("drivers", "failed", "icd", "kernels", "plans", "probe", "roofs", "torch", "tuned")
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,239}")
#: Where users are numbers and folders have modes. Elsewhere (Windows) what lies below a user's
#: profile is private, and there are no descriptors of folders: only names are checked.
_POSIX = os.name == "posix"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = 0o077
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _FLAGS
#: Without waiting where a pipe lies in the place of a file.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _FLAGS
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | _FLAGS
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS
_LOCK = os.O_RDWR | os.O_CREAT | _FLAGS
_LOCK_POLL_SECONDS = 0.05


class DistrustedError(PermissionError):
    """A folder, file or name that must not be used. The message says why."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as its folder shows it, not opened; ``modified`` in seconds since 1970.

    ``plain``: neither a link nor a pipe or the like.
    """

    folder: PrivateFolder
    name: str
    nbytes: int
    modified: float
    plain: bool

    @property
    def path(self) -> Path:
        """For showing."""
        return self.folder.path / self.name

    def read(self) -> bytes:
        return self.folder.read(self.name)

    def remove(self) -> None:
        self.folder.remove(self.name)


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    """The folder ``root/name/name…`` of the cache at ``root``, which need not be there.

    Operations raise OSError: DistrustedError where the rule above is broken, FileNotFoundError
    where there is no such folder or file.
    """

    root: Path
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.names:
            _check_name(name)

    @classmethod
    def at(cls, path: Path) -> PrivateFolder:
        """The folder at ``path`` in the cache whose root is its parent.

        Raises:
            DistrustedError: it has no name that a folder of the cache may have.
        """
        return cls(path.parent).folder(path.name)

    def folder(self, name: str) -> PrivateFolder:
        """The folder ``name`` in this one.

        Raises:
            DistrustedError: it is no plain name.
        """
        return PrivateFolder(self.root, (*self.names, name))

    @property
    def path(self) -> Path:
        """For showing, and to be compared."""
        return self.root.joinpath(*self.names)

    # -- trust -----------------------------------------------------------------------------

    def refusal(self) -> str:
        """Why nothing in this folder may be used; "" where it may, or where nothing is there."""
        try:
            with self._opened():
                return ""
        except DistrustedError as error:
            return str(error)
        except OSError:
            return ""  # missing, or not to be reached: nothing will be read from it

    def usable(self) -> bool:
        """Whether there is no ``refusal``; where there is one, the user is told once a process."""
        reason = self.refusal()
        if reason:
            warn_once(
                f"Nothing is read from or kept in the cache folder: {reason}. Remove it, or name "
                "another folder with OCL_INDUCTOR_CACHE_DIR."
            )
        return not reason

    # -- files -----------------------------------------------------------------------------

    def open(self, name: str) -> BinaryIO:
        """A file of ours, to be read."""
        _check_name(name)
        with self._opened() as folder:
            handle = os.open(self._place(name, folder), _READ, dir_fd=folder)
        return _checked_file(handle, "rb", self.path / name)

    def read(self, name: str) -> bytes:
        """The content of a file of ours."""
        with self.open(name) as file:
            return file.read()

    def write(self, name: str, content: bytes | str) -> None:
        """Keep ``content``: other processes see the whole file or none. Makes the folder.

        The file has mode 0600. Nothing is left beside it, whatever happens.
        """
        _check_name(name)
        data = content.encode() if isinstance(content, str) else content
        try:
            self._write(name, data)
        except FileNotFoundError:  # the folder was deleted at this very moment
            self._write(name, data)

    def _write(self, name: str, data: bytes) -> None:
        with self._opened(make=True) as folder:
            temporary = self._place(secrets.token_hex(8) + TEMPORARY_SUFFIX, folder)
            handle = os.open(temporary, _NEW, 0o600, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(data)
                target = self._place(name, folder)
                os.replace(temporary, target, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    def append(self, name: str, data: bytes) -> None:
        """Add a few bytes to a file, in one piece; makes the file, but not the folder."""
        _check_name(name)
        with self._opened() as folder:
            handle = os.open(self._place(name, folder), _APPEND, 0o600, dir_fd=folder)
        with _checked_file(handle, "ab", self.path / name) as file:
            file.write(data)

    def date_now(self, name: str) -> None:
        """Set a file's modification time to now."""
        _check_name(name)
        with self._opened() as folder:
            follow = os.utime not in os.supports_follow_symlinks
            os.utime(self._place(name, folder), dir_fd=folder, follow_symlinks=follow)

    def remove(self, name: str) -> None:
        """Remove a file, whatever it is but a folder; ``name`` as ``files`` gives it."""
        with self._opened() as folder:
            os.unlink(self._place(name, folder), dir_fd=folder)

    def files(self) -> list[FoundFile]:
        """What is in the folder and no folder itself, by name; nothing where it cannot be used."""
        found = []
        for entry, here in self._entries():
            if not stat.S_ISDIR(here.st_mode):
                plain = stat.S_ISREG(here.st_mode)
                found.append(FoundFile(self, entry, here.st_size, here.st_mtime, plain))
        return found

    # -- folders ---------------------------------------------------------------------------

    def folders(self) -> list[PrivateFolder]:
        """The folders in this one, by name; not the links, nor what has a name unlike ours."""
        return [
            self.folder(entry)
            for entry, here in self._entries()
            if stat.S_ISDIR(here.st_mode) and _NAME.fullmatch(entry)
        ]

    def remove_if_empty(self) -> None:
        """Remove a folder below the root that has nothing in it."""
        above, name = PrivateFolder(self.root, self.names[:-1]), self.names[-1]
        with above._opened() as folder, contextlib.suppress(OSError):
            os.rmdir(above._place(name, folder), dir_fd=folder)

    def _entries(self) -> list[tuple[str, os.stat_result]]:
        found = []
        with (
            contextlib.suppress(OSError),
            self._opened() as folder,
            os.scandir(self.path if folder is None else folder) as entries,
        ):
            for entry in entries:
                with contextlib.suppress(OSError):  # removed by another process
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
        return sorted(found, key=lambda x: x[0])

    # -- locks -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, name: str, seconds: float) -> Iterator[None]:
        """Held by one thread of one process at a time; makes the folder.

        Raises TimeoutError where another holds it for longer than ``seconds``.
        """
        _check_name(name)
        if not _POSIX:
            import filelock

            self.path.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(self.path / name, timeout=seconds):
                yield
            return
        with self._opened(make=True) as folder:
            handle = os.open(self._place(name, folder), _LOCK, 0o600, dir_fd=folder)
        with _checked_file(handle, "r+b", self.path / name), _flock(handle, seconds):
            yield

    # -- descriptors -----------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(self, make: bool = False) -> Iterator[int | None]:
        """A descriptor of the folder, in which it and all above it are checked; None where the
        system has none. ``make``: what is missing.
        """
        if not _POSIX:
            if make:
                self.path.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and not self.path.is_dir():
                raise DistrustedError(f"{self.path} is not a folder")
            yield None
            return
        if make:
            self.root.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            folder, shown = _enter(str(self.root), None, self.root, make), self.root
            stack.callback(os.close, folder)
            for name in self.names:
                shown /= name
                folder = _enter(name, folder, shown, make)
                stack.callback(os.close, folder)
            yield folder

    def _place(self, name: str, folder: int | None) -> str:
        """The path of a file for a system call, relative to the descriptor if there is one."""
        assert "/" not in name and name not in ("", ".", "..")
        return str(self.path / name) if folder is None else name


def _enter(name: str, above: int | None, shown: Path, make: bool) -> int:
    """Open a folder and check it."""
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=above)
    try:
        folder = os.open(name, _OPEN_FOLDER, dir_fd=above)
    except OSError:
        mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            raise
        kind = "a link" if stat.S_ISLNK(mode) else "not a folder"
        raise DistrustedError(f"{shown} is {kind}") from None
    try:
        _check_folder(folder, shown, root=above is None)
    except BaseException:
        os.close(folder)
        raise
    return folder


def _check_folder(folder: int, shown: Path, root: bool) -> None:
    """Make a folder of ours private, unless others may have been in it already.

    A root that holds other things as well is the user's own affair, as long as only they write it.
    """
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        raise DistrustedError(f"{shown} belongs to another user")
    if not found.st_mode & _OTHERS:
        return
    inside, theirs = os.listdir(folder), bool(found.st_mode & _OTHERS_WRITE)
    if theirs and (inside or found.st_mode & stat.S_ISVTX):
        raise DistrustedError(f"{shown} can be written by other users")
    if root and not KINDS.issuperset(inside):
        return
    try:
        os.fchmod(folder, 0o700)
    except OSError as error:
        if theirs:
            raise
        _log.info("%s could not be made private: %s", shown, error)
    if theirs and os.listdir(folder):
        raise DistrustedError(f"{shown} could be written by other users")


def _checked_file(handle: int, mode: str, shown: Path) -> BinaryIO:
    """The open file, not buffered, if it is a plain one that is ours alone to write; else it is
    closed.
    """
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        reason = "is not a plain file"
    elif _POSIX and found.st_uid != os.geteuid():
        reason = "belongs to another user"
    elif _POSIX and found.st_mode & _OTHERS_WRITE:
        reason = "can be written by other users"
    else:
        return os.fdopen(handle, mode, buffering=0)  # type: ignore[return-value]
    os.close(handle)
    raise DistrustedError(f"{shown} {reason}")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise DistrustedError(f"{name!r} is no name of a file in the cache")


@contextlib.contextmanager
def _flock(handle: int, seconds: float) -> Iterator[None]:
    import fcntl

    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                raise
        if time.monotonic() > end:
            raise TimeoutError(f"it is held for more than {seconds:.3g} s")
        time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


#: Each message, and the call that was the first with it.
_said: dict[str, object] = {}


def warn_once(message: str) -> None:
    """A warning for the user's log, the same one only once a process, whichever threads have it."""
    call = object()
    if _said.setdefault(message, call) is call:
        _log.warning("%s", message)
