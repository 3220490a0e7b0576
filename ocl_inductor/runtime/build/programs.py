"""The kernels of a process: each is built once, by the first thread that requests it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import release_code
from ocl_inductor.patches.process.process_hooks import after_fork_in_child
from ocl_inductor.plan.plan import Kernel
from ocl_inductor.runtime.build.builders import WorkerFailedError, builders_of
from ocl_inductor.runtime.build.kernel_builder import BuiltKernel, make_kernels
from ocl_inductor.runtime.build.program_batches import workers_for
from ocl_inductor.runtime.build.progress import progress
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.store.entry import make_key
from ocl_inductor.runtime.store.kernel_store import KernelStore
from ocl_inductor.runtime.store.usage import size_guard
from ocl_inductor.settings import Settings
from ocl_inductor.support.private_folder import PrivateFolder


def build_kernels(
    kernels: Sequence[Kernel], device: Device, settings: Settings
) -> list[BuiltKernel]:
    """What runs each kernel, built in ``settings.compile_threads`` threads.

    Kernels that another graph or thread of this process has built, or is building, are shared.

    Raises:
        KernelBuildError: the driver refused a source; holds its log and where the source is.
    """
    device.context  # noqa: B018  (make the handles before threads ask for them)
    programs = _programs_of(device)
    store = KernelStore(kernel_folder(settings))
    keys = [kernel_key(k, device) for k in kernels]
    wanted = dict(zip(keys, kernels, strict=True))
    with progress("OpenCL kernels", len(wanted), settings.progress) as advance:
        found, written = programs.get(wanted, store, settings, advance)
    if programs.made:
        programs.made = False
        release_code()  # the driver's compiler and loader are not needed any more
    evicted = size_guard(store.folder, settings.cache_size_limit).wrote(written)
    if evicted:
        count("cache_evicted", evicted)
    return [found[key] for key in keys]


def start_builders(device: Device, settings: Settings, kernels: int) -> None:
    """Start workers for about so many ``kernels``: they load the compiler in the background."""
    count = workers_for(kernels, min(settings.compile_processes, settings.compile_threads))
    if count:
        builders_of(device).start(count)
        device.helper_of = builders_of


def leave_out_broken_builtins(device: Device, settings: Settings) -> bool:
    """After a compiler failed: whether code for ``device`` now does without some function."""
    options = device.info.build_options

    def builds(source: str) -> bool:
        try:
            built = builders_of(device).build(source, options, settings.compile_processes)
        except WorkerFailedError:
            return False
        return built is not None

    return device.leave_out_broken_builtins(builds)


def start_first_builder(device: Device, settings: Settings) -> None:
    """The same at once, where nothing is kept that could make it needless."""
    plans = PrivateFolder(settings.cache_dir).folder("plans")
    if not settings.cache or not plans.folders():
        start_builders(device, settings, kernels=1)


def kernel_folder(settings: Settings) -> Path | None:
    """Where kernels are kept under these settings; None where they are not."""
    return settings.cache_dir / "kernels" if settings.cache else None


def kernel_key(kernel: Kernel, device: Device) -> str:
    """The hash of everything a binary depends on."""
    return make_key(kernel.source, kernel.options, device.info.key)


def forget_programs() -> None:
    """Do not share earlier builds with later compilations."""
    _tables.clear()


_Place = tuple[str, Path | None]
_Future = Future[BuiltKernel | None]


class _Programs:
    """The programs of one OpenCL context: live ones, and those being built in some thread."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.context = device.context
        self.lock = threading.Lock()
        self.alive: weakref.WeakValueDictionary[_Place, BuiltKernel]
        self.alive = weakref.WeakValueDictionary()
        self.building: dict[_Place, _Future] = {}
        self.made = False  # a program since this was last looked at

    def get(
        self,
        wanted: Mapping[str, Kernel],
        store: KernelStore,
        settings: Settings,
        advance: Callable[[], None],
    ) -> tuple[dict[str, BuiltKernel], int]:
        """Each kernel by its key, and how many bytes were written to the store for them."""
        found: dict[str, BuiltKernel] = {}
        written = 0

        def share(key: str, built: BuiltKernel) -> None:
            found[key] = built
            count("kernels_shared")
            advance()

        while len(found) < len(wanted):
            here, pending, mine = self._claim([k for k in wanted if k not in found], store.folder)
            for key, built in here.items():
                share(key, built)
            if mine:
                kernels = {key: wanted[key] for key in mine}
                written += self._make(kernels, mine, store, settings, found, advance)
            for key, future in pending.items():
                other = future.result()
                if other is not None:  # None: that thread was interrupted, so try again
                    share(key, other)
        return found, written

    def _claim(
        self, keys: Sequence[str], folder: Path | None
    ) -> tuple[dict[str, BuiltKernel], dict[str, _Future], dict[str, _Future]]:
        """Live kernels, those that other threads are building, and those this one has to build.

        Each folder gets its own copy, so that it holds all kernels that one process used.
        """
        here: dict[str, BuiltKernel] = {}
        pending: dict[str, _Future] = {}
        mine: dict[str, _Future] = {}
        with self.lock:
            for key in keys:
                built = self.alive.get((key, folder))
                if built is not None:
                    here[key] = built
                elif (key, folder) in self.building:
                    pending[key] = self.building[key, folder]
                else:
                    mine[key] = self.building[key, folder] = Future()
        return here, pending, mine

    def _make(
        self,
        kernels: Mapping[str, Kernel],
        claims: Mapping[str, _Future],
        store: KernelStore,
        settings: Settings,
        found: dict[str, BuiltKernel],
        advance: Callable[[], None],
    ) -> int:
        """Load or build what this thread has claimed, into ``found``; the bytes written."""

        def settle(key: str, built: BuiltKernel | Exception | None) -> None:
            with self.lock:
                if isinstance(built, BuiltKernel):
                    self.made = True
                    self.alive[key, store.folder] = built
                    found[key] = built
                del self.building[key, store.folder]
            if isinstance(built, Exception):
                claims[key].set_exception(built)
            else:
                claims[key].set_result(built)
            if built is not None:
                advance()

        try:
            return make_kernels(kernels, self.device, store, settings, settle)
        finally:
            for key, claim in claims.items():
                if not claim.done():
                    settle(key, None)


_tables: weakref.WeakKeyDictionary[Device, _Programs] = weakref.WeakKeyDictionary()
_tables_lock = threading.Lock()
# A build in progress in the parent never finishes in the child.
after_fork_in_child(forget_programs)


def _programs_of(device: Device) -> _Programs:
    context = device.context  # made before the lock is taken: that can take seconds
    with _tables_lock:
        programs = _tables.get(device)
        if programs is None or programs.context is not context:
            programs = _Programs(device)
            _tables[device] = programs
        return programs
