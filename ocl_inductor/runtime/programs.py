"""Kernels from source, with binaries kept on disk between processes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ocl_inductor.device import Device
from ocl_inductor.drivers import load_pyopencl
from ocl_inductor.errors import KernelBuildError
from ocl_inductor.log import logger
from ocl_inductor.plan import SCHEMA_VERSION, Kernel
from ocl_inductor.runtime.counters import count
from ocl_inductor.settings import Settings

_log = logger(__name__)
_MAGIC = b"ocl-inductor kernel 2\n"
_DIGEST_BYTES = 32


def build_kernels(kernels: Sequence[Kernel], device: Device, settings: Settings) -> list[Any]:
    """One pyopencl Program for each kernel, built in ``settings.compile_threads`` threads.

    Raises:
        KernelBuildError: the driver refused a source; holds its log and where the source is.
    """
    device.context  # noqa: B018  (make the handles before threads ask for them)
    store = BinaryStore(settings.cache_dir / "kernels" if settings.cache else None)

    def one(kernel: Kernel) -> Any:
        return _build(kernel, device, store, settings)

    if len(kernels) < 2 or settings.compile_threads < 2:
        return [one(k) for k in kernels]
    with ThreadPoolExecutor(settings.compile_threads) as pool:
        return list(pool.map(one, kernels))


def _build(kernel: Kernel, device: Device, store: BinaryStore, settings: Settings) -> Any:
    cl = load_pyopencl()
    key = kernel_key(kernel, device)
    binary = store.read(key)
    if binary is not None:
        try:
            program = cl.Program(device.context, [device.cl_device], [binary])
            program = program.build(cache_dir=False)
            count("cache_hits")
            return program
        except cl.Error as error:
            _log.info("cached binary of %s was rejected: %s", kernel.name, error)
    count("cache_misses")
    try:
        program = cl.Program(device.context, kernel.source).build(
            options=list(kernel.options), cache_dir=False
        )
    except cl.Error as error:
        path = _save_failed(kernel, settings.cache_dir / "failed")
        raise KernelBuildError(kernel.name, str(error), path, kernel.fx_nodes) from error
    binaries = program.get_info(cl.program_info.BINARIES)
    if binaries and binaries[0]:
        store.write(key, binaries[0])
    return program


def kernel_key(kernel: Kernel, device: Device) -> str:
    """Everything a binary depends on."""
    parts = (str(SCHEMA_VERSION), device.info.key, " ".join(kernel.options), kernel.source)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _save_failed(kernel: Kernel, folder: Path) -> Path | str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{kernel.name}_{hashlib.sha256(kernel.source.encode()).hexdigest()[:8]}.cl"
        path.write_text(kernel.source)
        return path
    except OSError:
        return ""


def _digest(key: str, binary: bytes) -> bytes:
    """Of the key too, so that an entry under another's name is not taken."""
    return hashlib.sha256(key.encode() + binary).digest()


class BinaryStore:
    """Files of magic, SHA-256 of key and binary, binary. Anything unexpected is a miss."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key[2:]}.bin"

    def read(self, key: str) -> bytes | None:
        if self.folder is None:
            return None
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        body = data[len(_MAGIC) + _DIGEST_BYTES :]
        digest = data[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]
        if not data.startswith(_MAGIC) or _digest(key, body) != digest:
            return None
        return body

    def write(self, key: str, binary: bytes) -> None:
        """Atomic: readers see the whole file or none. A full or read-only disk is no error."""
        if self.folder is None:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(_MAGIC + _digest(key, binary) + binary)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            _log.info("kernel binary not kept: %s", error)
