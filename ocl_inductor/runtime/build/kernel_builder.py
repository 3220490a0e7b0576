"""Kernels from the cache folder, or from the driver's compiler and then stored there.

Kernels that are compiled at the same time share a program (program_batches.py), and with it the
binary in their entries. An entry that is damaged, or that the driver rejects, is rebuilt by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ocl_inductor import errors
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClKernel, ClProgram
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.errors import KernelBuildError
from ocl_inductor.log import logger
from ocl_inductor.patches.process.malloc_trim import give_back_freed
from ocl_inductor.plan.plan import Kernel
from ocl_inductor.plan.program import one_program
from ocl_inductor.runtime.build.builders import WorkerFailedError, builders_of, compiles_in_child
from ocl_inductor.runtime.build.driver_programs import (
    binary_of,
    kernels_of,
    make_ready,
    program_from_binary,
    program_from_source,
)
from ocl_inductor.runtime.build.program_batches import batches
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.store import artifacts
from ocl_inductor.runtime.store.entry import (
    DamagedEntryError,
    DeviceFacts,
    Entry,
    Metadata,
    decode,
    encode,
)
from ocl_inductor.runtime.store.kernel_store import KernelStore
from ocl_inductor.settings import Settings
from ocl_inductor.support.private_folder import PrivateFolder

_log = logger(__name__)
_DO_NOT_OPTIMISE = "-cl-opt-disable"

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, eq=False)
class BuiltKernel:
    """A kernel in a pyopencl Program, which may hold others too."""

    # Python 3.10's dataclasses cannot be told of the last one.
    __slots__ = ("program", "symbol", "__weakref__")

    program: ClProgram
    symbol: str

    def instance(self) -> ClKernel:
        """A pyopencl Kernel with arguments of its own.

        Raises:
            pyopencl.Error: the program has no such kernel.
        """
        return load_pyopencl().Kernel(self.program, self.symbol)


#: Called with each kernel when it is built, or with the error.
Settle = Callable[[str, BuiltKernel | Exception], None]


def make_kernels(
    kernels: Mapping[str, Kernel],
    device: Device,
    store: KernelStore,
    settings: Settings,
    settle: Settle,
) -> int:
    """Load or build kernels, given by their keys, and ``settle`` each; the bytes written.

    Raises:
        KernelBuildError: the driver refused a source; holds its log and where the source is.
    """
    return _KernelBuild(kernels, device, store, settings, settle).run()


class _KernelBuild:
    def __init__(
        self,
        kernels: Mapping[str, Kernel],
        device: Device,
        store: KernelStore,
        settings: Settings,
        settle: Settle,
    ) -> None:
        self.kernels = kernels
        self.device = device
        self.store = store
        self.settings = settings
        self.settle = settle
        #: Keys of entries that cannot be used.
        self.bad: set[str] = set()

    def run(self) -> int:
        there = self.load(self.kernels)
        missing = {key: kernel for key, kernel in self.kernels.items() if key not in there}
        return sum(self.each(self.build, batches(missing, self.workers)))

    @property
    def workers(self) -> int:
        return max(self.settings.compile_threads, 1)

    def each(self, work: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """``work`` on all items, in threads where there are several."""
        items = list(items)
        if len(items) < 2 or self.workers < 2:
            return [work(x) for x in items]
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(work, items))

    # -- from the cache folder -------------------------------------------------------------

    def load(self, keys: Iterable[str]) -> set[str]:
        """Settle the kernels in the folder; their keys. Each program is loaded once."""
        programs: dict[bytes, list[tuple[Entry, bytes]]] = {}
        for entry, data in filter(None, self.each(self.read, keys)):
            programs.setdefault(entry.binary, []).append((entry, data))
        loaded = self.each(self.load_program, programs.items())
        if programs:
            give_back_freed()
        return {key for found in loaded for key in found}

    def read(self, key: str) -> tuple[Entry, bytes] | None:
        """An entry, and its file's bytes; None where there is no usable one."""
        try:
            data = self._bytes(key)
            return None if data is None else (decode(key, data), data)
        except DamagedEntryError as error:
            name = self.kernels[key].name
            _log.info("cached kernel %s is built again: %s", name, error)
            count("cache_damaged")
            self.bad.add(key)
            return None

    def _bytes(self, key: str) -> bytes | None:
        """From the folder, or from artefacts that were loaded into this process."""
        data = self.store.read_bytes(key)
        if data is None and self.store.folder is not None:
            for data in artifacts.loaded(artifacts.KERNEL, key):
                self.store.write_bytes(key, data)
        return data

    def load_program(self, item: tuple[bytes, list[tuple[Entry, bytes]]]) -> list[str]:
        """Settle the kernels of one binary; their keys, none where the driver rejects it."""
        binary, entries = item
        try:
            program = program_from_binary(binary, self.device)
            make_ready(program, entries[0][0].metadata.symbol)
            there = kernels_of(program)
        except load_pyopencl().Error as error:
            for entry, _ in entries:
                self.reject(entry, error)
            return []
        loaded = []
        for entry, data in entries:
            symbol = entry.metadata.symbol
            if there and symbol not in there:  # a driver may be unable to list them
                self.reject(entry, f"there is no kernel {symbol}")
                continue
            count("cache_hits")
            self.store.touch(entry.key)
            artifacts.record(artifacts.KERNEL, entry.key, data)
            self.settle(entry.key, BuiltKernel(program, symbol))
            loaded.append(entry.key)
        return loaded

    def reject(self, entry: Entry, why: object) -> None:
        """Mark a kernel for rebuilding whose binary is unusable."""
        _log.info("cached kernel %s is built again, the driver says: %s", entry.metadata.name, why)
        count("cache_rejected")
        self.bad.add(entry.key)

    # -- from the compiler -----------------------------------------------------------------

    def build(self, batch: Mapping[str, Kernel]) -> int:
        """Settle kernels that are compiled together; the bytes written."""
        with self.store.building(batch):
            # Another process may have built them while this one waited.
            there = self.load(key for key in batch if key not in self.bad)
            missing = {key: kernel for key, kernel in batch.items() if key not in there}
            if missing:
                count("cache_misses", len(missing))
            written = self.build_together(missing) if len(missing) > 1 else None
            if written is None:
                written = sum(self.build_alone(key, k) for key, k in missing.items())
            give_back_freed()
            return written

    def build_together(self, batch: Mapping[str, Kernel]) -> int | None:
        """The same, as one program; None where that failed, and nothing was settled."""
        kernels = list(batch.values())
        source, symbols = one_program([k.code for k in kernels])
        began = time.perf_counter()
        built = self.compiled(source, kernels)
        if built is None and not (self.settings.compile_processes and compiles_in_child()):
            built = self.compiled_here(source, kernels)
        if built is None:
            return None
        program, binary = built
        make_ready(program, symbols[0])
        # Each kernel's share of the time, by the length of its source.
        share = (time.perf_counter() - began) / sum(len(k.source) for k in kernels)
        written = 0
        for (key, kernel), symbol in zip(batch.items(), symbols, strict=True):
            seconds = share * len(kernel.source)
            written += self.keep(key, kernel, symbol, binary, seconds)
            self.settle(key, BuiltKernel(program, symbol))
        return written

    def build_alone(self, key: str, kernel: Kernel) -> int:
        began = time.perf_counter()
        try:
            built = self.compiled(kernel.source, [kernel])
            if built is None:
                program = build_from_source(kernel, self.device, self.settings)
                built = program, self.binary_to_keep(program)
        except KernelBuildError as error:
            self.settle(key, error)
            raise
        program, binary = built
        make_ready(program, kernel.name)
        written = self.keep(key, kernel, kernel.name, binary, time.perf_counter() - began)
        self.settle(key, BuiltKernel(program, kernel.name))
        return written

    def compiled(self, source: str, kernels: Sequence[Kernel]) -> tuple[ClProgram, bytes] | None:
        """The program and its binary from a compile worker; None where it has to be built here, or
        each kernel separately.

        Raises:
            errors.CompilerFailedError: the driver's compiler crashes or takes too long, even when
                it does not optimise.
        """
        processes, options = self.settings.compile_processes, kernels[0].options
        try:
            binary = builders_of(self.device).build(source, options, processes)
        except WorkerFailedError as error:
            names = ", ".join(k.name for k in kernels)
            _log.info("the driver's compiler %s, on %s", error, names)
            if len(kernels) > 1:
                return None
            binary = self.not_optimised(kernels[0], error)
        if binary is None:
            return None
        count("kernels_built_in_child", len(kernels))
        try:
            return program_from_binary(binary, self.device), binary
        except load_pyopencl().Error as error:
            names = ", ".join(k.name for k in kernels)
            _log.info("the driver refuses what it compiled for %s: %s", names, error)
            return None

    def not_optimised(self, kernel: Kernel, failure: WorkerFailedError) -> bytes:
        """The unoptimised binary of a kernel that crashes the compiler's optimiser.

        Raises:
            errors.CompilerFailedError: this fails too. It is not compiled here, where it would
                crash or block this process.
        """
        build, options = builders_of(self.device).build, (*kernel.options, _DO_NOT_OPTIMISE)
        binary = None
        with contextlib.suppress(WorkerFailedError):
            binary = build(kernel.source, options, self.settings.compile_processes)
        if binary is None:
            path = _save_failed(kernel, _failed(self.settings))
            log = f"the driver's compiler {failure}"
            raise errors.CompilerFailedError(kernel.name, log, path, kernel.fx_nodes) from failure
        _log.warning(
            "kernel %s is compiled without optimising, and slow: the driver's compiler %s",
            kernel.name,
            failure,
        )
        count("kernels_not_optimised")
        return binary

    def compiled_here(
        self, source: str, kernels: Sequence[Kernel]
    ) -> tuple[ClProgram, bytes] | None:
        """The same, compiled in this process; None where the driver refuses it."""
        try:
            program = program_from_source(source, kernels[0].options, self.device)
        except load_pyopencl().Error as error:
            _log.info("kernels are compiled one by one: %s", error)
            return None
        return program, self.binary_to_keep(program)

    def binary_to_keep(self, program: object) -> bytes:
        return binary_of(program) if self.store.folder is not None else b""

    def keep(self, key: str, kernel: Kernel, symbol: str, binary: bytes, seconds: float) -> int:
        """Write an entry; its bytes."""
        if not binary:
            return 0
        metadata = describe(kernel, symbol, self.device, seconds)
        entry = Entry(key, metadata, kernel.source, binary)
        artifacts.record(artifacts.KERNEL, key, encode(entry))
        written = self.store.write(entry)
        if not written and self.store.folder is not None:
            count("cache_not_written")
        return written


def build_from_source(kernel: Kernel, device: Device, settings: Settings) -> ClProgram:
    """A pyopencl Program.

    Raises:
        KernelBuildError: the driver refused the source; holds its log and where the source is.
    """
    try:
        return program_from_source(kernel.source, kernel.options, device)
    except load_pyopencl().Error as error:
        path = _save_failed(kernel, _failed(settings))
        raise KernelBuildError(kernel.name, str(error), path, kernel.fx_nodes) from error


def describe(kernel: Kernel, symbol: str, device: Device, build_seconds: float) -> Metadata:
    """The metadata stored with source and binary."""
    info = device.info
    return Metadata(
        name=kernel.name,
        symbol=symbol,
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


def _failed(settings: Settings) -> PrivateFolder:
    return PrivateFolder(settings.cache_dir).folder("failed")


def _save_failed(kernel: Kernel, folder: PrivateFolder) -> Path | str:
    name = f"{kernel.name}_{hashlib.sha256(kernel.source.encode()).hexdigest()[:8]}.cl"
    try:
        folder.write(name, kernel.source)
    except OSError:
        return ""
    return folder.path / name
