"""Kernels from source: built once in a process, and kept on disk between processes."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ocl_inductor.device import Device
from ocl_inductor.drivers import load_pyopencl, release_code
from ocl_inductor.errors import KernelBuildError
from ocl_inductor.log import logger
from ocl_inductor.plan import Kernel
from ocl_inductor.runtime import artifacts
from ocl_inductor.runtime.builders import builders_of
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.driver_programs import (
    binary_of,
    make_ready,
    program_from_binary,
    program_from_source,
)
from ocl_inductor.runtime.progress import progress
from ocl_inductor.runtime.store import KernelStore
from ocl_inductor.runtime.store_entry import (
    DamagedEntryError,
    DeviceFacts,
    Entry,
    Metadata,
    decode,
    encode,
    make_key,
)
from ocl_inductor.runtime.store_usage import SizeGuard
from ocl_inductor.settings import Settings

_log = logger(__name__)


def build_kernels(kernels: Sequence[Kernel], device: Device, settings: Settings) -> list[Any]:
    """One pyopencl Program for each kernel, built in ``settings.compile_threads`` threads.

    Kernels that another graph or thread of this process has, or is building, are shared with it.

    Raises:
        KernelBuildError: the driver refused a source; holds its log and where the source is.
    """
    device.context  # noqa: B018  (make the handles before threads ask for them)
    programs = _programs_of(device)
    store = KernelStore(kernel_folder(settings))

    with progress("OpenCL kernels", len(kernels), settings.progress) as advance:

        def one(kernel: Kernel) -> tuple[Any, int]:
            built = programs.get(kernel, store, settings)
            advance()
            return built

        if len(kernels) < 2 or settings.compile_threads < 2:
            built = [one(k) for k in kernels]
        else:
            with ThreadPoolExecutor(settings.compile_threads) as pool:
                built = list(pool.map(one, kernels))
    if programs.made:
        programs.made = False
        release_code()  # the driver's compiler and loader have done their work
    evicted = programs.guard(store, settings).wrote(sum(nbytes for _, nbytes in built))
    if evicted:
        count("cache_evicted", evicted)
    return [program for program, _ in built]


def start_builders(device: Device, settings: Settings) -> None:
    """Say that kernels will be built soon: what builds them opens its driver meanwhile."""
    builders_of(device).start(settings.compile_processes)


def kernel_folder(settings: Settings) -> Path | None:
    """Where kernels are kept under these settings; None where they are not."""
    return settings.cache_dir / "kernels" if settings.cache else None


def kernel_key(kernel: Kernel, device: Device) -> str:
    """Everything a binary depends on."""
    return make_key(kernel.source, kernel.options, device.info.key)


def forget_programs() -> None:
    """Share nothing that was built before with what is compiled from here on."""
    _tables.clear()


class _Programs:
    """The programs of one OpenCL context: those alive, and those being built in some thread."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.context = device.context
        self.lock = threading.Lock()
        self.alive: weakref.WeakValueDictionary[_Place, Any] = weakref.WeakValueDictionary()
        self.building: dict[_Place, Future[Any]] = {}
        self.guards: dict[Path | None, SizeGuard] = {}
        self.made = False  # a program since this was last looked at

    def guard(self, store: KernelStore, settings: Settings) -> SizeGuard:
        with self.lock:
            guard = self.guards.get(store.folder)
            if guard is None or guard.limit != settings.cache_size_limit:
                guard = SizeGuard(store, settings.cache_size_limit)
                self.guards[store.folder] = guard
            return guard

    def get(self, kernel: Kernel, store: KernelStore, settings: Settings) -> tuple[Any, int]:
        """The program, and how many bytes were written to the store for it."""
        key = kernel_key(kernel, self.device)
        # Each folder gets its own copy, so that what one process used is complete there.
        place = (key, store.folder)
        while True:
            with self.lock:
                program = self.alive.get(place)
                pending = self.building.get(place)
                if program is None and pending is None:
                    mine: Future[Any] = Future()
                    self.building[place] = mine
                    break
            if program is None:
                assert pending is not None
                program = pending.result()
            if program is not None:  # None: the other thread was interrupted, so try again
                count("kernels_shared")
                return program, 0
        try:
            program, written = _load_or_build(kernel, key, self.device, store, settings)
            make_ready(program, kernel.name)
        except BaseException as error:
            with self.lock:
                del self.building[place]
            if isinstance(error, Exception):
                mine.set_exception(error)
            else:
                mine.set_result(None)
            raise
        with self.lock:
            self.made = True
            self.alive[place] = program
            del self.building[place]
        mine.set_result(program)
        return program, written


_Place = tuple[str, Path | None]
_tables: weakref.WeakKeyDictionary[Device, _Programs] = weakref.WeakKeyDictionary()
if hasattr(os, "register_at_fork"):
    # A build that the parent was at will never end in the child.
    os.register_at_fork(after_in_child=forget_programs)


def _programs_of(device: Device) -> _Programs:
    programs = _tables.get(device)
    if programs is None or programs.context is not device.context:
        programs = _Programs(device)
        _tables[device] = programs
    return programs


def _load_or_build(
    kernel: Kernel, key: str, device: Device, store: KernelStore, settings: Settings
) -> tuple[Any, int]:
    program, usable = _load(kernel, key, device, store)
    if program is not None:
        return program, 0
    with store.building(key):
        if usable:  # nothing was there, and another process may have built it meanwhile
            program, _ = _load(kernel, key, device, store)
            if program is not None:
                return program, 0
        count("cache_misses")
        began = time.perf_counter()
        program, binary = _built_apart(kernel, device, settings)
        if program is None:
            program = build_from_source(kernel, device, settings)
            binary = binary_of(program) if store.folder is not None else b""
        seconds = time.perf_counter() - began
        return program, _keep(kernel, key, device, store, binary, seconds)


def _built_apart(kernel: Kernel, device: Device, settings: Settings) -> tuple[Any, bytes]:
    """The program and its binary from a compile worker; None where it has to be built here."""
    builders = builders_of(device)
    binary = builders.build(kernel.source, kernel.options, settings.compile_processes)
    if binary is None:
        return None, b""
    try:
        return program_from_binary(binary, device), binary
    except load_pyopencl().Error as error:
        _log.info("the driver refuses what it compiled for %s: %s", kernel.name, error)
        return None, b""


def _load(kernel: Kernel, key: str, device: Device, store: KernelStore) -> tuple[Any, bool]:
    """The program from disk, or None; and whether the place on disk is free of bad entries."""
    try:
        data = _read(store, key)
        if data is None:
            return None, True
        entry = decode(key, data)
    except DamagedEntryError as error:
        _log.info("cached kernel %s is built again: %s", kernel.name, error)
        count("cache_damaged")
        return None, False
    try:
        program = program_from_binary(entry.binary, device)
    except load_pyopencl().Error as error:
        _log.info("cached kernel %s is built again, the driver says: %s", kernel.name, error)
        count("cache_rejected")
        return None, False
    count("cache_hits")
    store.touch(key)
    artifacts.record(artifacts.KERNEL, key, data)
    return program, True


def _read(store: KernelStore, key: str) -> bytes | None:
    """The entry's bytes from the folder, or from artefacts that were loaded into this process."""
    data = store.read_bytes(key)
    if data is None and store.folder is not None:
        for data in artifacts.loaded(artifacts.KERNEL, key):
            store.write_bytes(key, data)
    return data


def build_from_source(kernel: Kernel, device: Device, settings: Settings) -> Any:
    """A pyopencl Program.

    Raises:
        KernelBuildError: the driver refused the source; holds its log and where the source is.
    """
    try:
        return program_from_source(kernel.source, kernel.options, device)
    except load_pyopencl().Error as error:
        path = _save_failed(kernel, settings.cache_dir / "failed")
        raise KernelBuildError(kernel.name, str(error), path, kernel.fx_nodes) from error


def describe(kernel: Kernel, device: Device, build_seconds: float) -> Metadata:
    """What is kept beside source and binary."""
    info = device.info
    return Metadata(
        name=kernel.name,
        options=kernel.options,
        device=DeviceFacts(
            device.short_name,
            info.name,
            info.platform_name,
            info.platform_version,
            info.driver_version,
            info.device_version,
            info.key,
        ),
        operators=kernel.operators,
        fx_nodes=kernel.fx_nodes,
        user_code=kernel.user_code,
        build_seconds=round(build_seconds, 6),
        created=round(time.time(), 3),
        launch=kernel.example,
    )


def _keep(
    kernel: Kernel, key: str, device: Device, store: KernelStore, binary: bytes, seconds: float
) -> int:
    if not binary:
        return 0
    entry = Entry(key, describe(kernel, device, seconds), kernel.source, binary)
    artifacts.record(artifacts.KERNEL, key, encode(entry))
    written = store.write(entry)
    if not written and store.folder is not None:
        count("cache_not_written")
    return written


def _save_failed(kernel: Kernel, folder: Path) -> Path | str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{kernel.name}_{hashlib.sha256(kernel.source.encode()).hexdigest()[:8]}.cl"
        path.write_text(kernel.source)
        return path
    except OSError:
        return ""
