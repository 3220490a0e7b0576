"""PyTorch's digest of its own sources, cached between processes.

The key of every plan contains it, and PyTorch reads and hashes 2000 files for it: 0.2 to 0.3 s of
each warm start. We cache the digest with the metadata of these files as key: if sizes, times and
inodes of all of them agree, so does the digest. Anything else is a miss, and PyTorch computes it as
usual.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import torch

from ocl_inductor.patches.pytorch.torch_digest import digest_function, give
from ocl_inductor.support import json_cache
from ocl_inductor.support.private_folder import PrivateFolder

_SCHEMA = 1
_ROOT = Path(torch.__file__).parent


@functools.cache
def provide_digest(cache_dir: Path) -> None:
    """Give PyTorch the cached digest of its sources; or let it compute the digest, and cache it.

    ``cache_dir``: our cache folder. Once a process. No effect where PyTorch stores the digest in
    another way or has it already, or where the patch is off. Never raises on disk errors.
    """
    torch_key = digest_function()
    if torch_key is None:
        return
    folder = PrivateFolder(cache_dir).folder("torch")
    state = _state_of_sources()
    digest = _remembered(folder, state)
    if digest is None:
        _remember(folder, state, torch_key())
        return
    give(digest)


def _name() -> str:
    """The file with the digest of this installation: one, however often its sources change."""
    return json_cache.name_of(str(_ROOT))


def _state_of_sources() -> str:
    """A digest of the metadata of every file that PyTorch hashes, and of some more."""
    digest = hashlib.sha256(repr((_SCHEMA, torch.__version__)).encode())
    for line in sorted(_files(_ROOT)):
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(folder: str | Path) -> Iterator[str]:
    """The files of a package and of the packages in it, each with size, times and inode."""
    folders = []
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_file():
                s = entry.stat()
                yield f"{entry.path} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}\n"
            elif entry.is_dir() and os.path.exists(os.path.join(entry.path, "__init__.py")):
                folders.append(entry.path)
    # One folder of C++ belongs to it although it is no package.
    templates = os.path.join(folder, "aoti_runtime")
    if os.path.isdir(templates) and templates not in folders:
        folders.append(templates)
    for path in folders:
        yield from _files(path)


def _remembered(folder: PrivateFolder, state: str) -> bytes | None:
    try:
        digest = bytes.fromhex(json_cache.load(folder, state, _name()))
    except (ValueError, TypeError):
        return None  # missing or damaged: a miss
    return digest if len(digest) == 32 else None


def _remember(folder: PrivateFolder, state: str, digest: bytes) -> None:
    json_cache.save(folder, state, digest.hex(), _name())
