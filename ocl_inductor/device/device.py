"""A device: its facts (facts.py) together with its OpenCL objects, which are made at first use and
live as long as the process.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Protocol

from ocl_inductor.device import quirks
from ocl_inductor.device.builtin_check import Builds
from ocl_inductor.device.cpu import matrix_unit
from ocl_inductor.device.cpu.compile_target import CompileTarget
from ocl_inductor.device.cpu.dot_products import DotName, has_dot
from ocl_inductor.device.driver import cpu_name_override
from ocl_inductor.device.driver.handles import ClContext, ClDevice, ClQueue
from ocl_inductor.device.driver.inventory import Listed
from ocl_inductor.device.driver.listing import listed_device
from ocl_inductor.device.driver.pyopencl_loader import (
    driver_platforms,
    load_pyopencl,
    opening,
    release_code,
)
from ocl_inductor.device.driver.questions import names_of
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.device.gpu.matrix_instructions import may_have_mma
from ocl_inductor.device.inline_queue import EXTENSION, calling_queue
from ocl_inductor.device.probe import (
    amx_works,
    broken_builtins_of,
    calling_thread_works,
    check_builtins,
    dot_works,
    inline_device_works,
    mma_works,
    target_of,
    zero_copy_works,
)
from ocl_inductor.errors import DriverChangedError
from ocl_inductor.log import logger
from ocl_inductor.settings import Settings

_log = logger(__name__)


class Helper(Protocol):
    """A process that exists or is needed soon, which answers what may crash one; any of its methods
    may raise.
    """

    def test(self) -> bool:
        """Whether the device works in place."""

    def target(self) -> CompileTarget | None:
        """What the driver's compiler targets; None where it does not tell."""

    def has_dot(self, name: DotName) -> bool:
        """Whether kernels can use an instruction for dot products."""


class Device:
    """One device: its facts, and its OpenCL objects made at first use."""

    #: Finds the helper of a device, where there is one.
    helper_of: Callable[[Device], Helper] | None = None

    def __init__(
        self,
        cl_device: ClDevice,
        listed: Listed | None = None,
        library: str = "",
        inline_device: quirks.InlineDevice | None = None,
        driver_changed: Callable[[], None] | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``cl_device``: pyopencl's; None for the one that ``library`` lists as ``listed``, and
        may list as ``inline_device`` as well. ``driver_changed``: called where it does not.
        ``variables``: with these in its environment a process lists the device.
        """
        self._opened = cl_device
        self._listed = listed if listed is not None else listed_device((0, 0), cl_device)
        self.library = library
        self.variables = variables
        self._inline_device = inline_device
        self._driver_changed = driver_changed
        self._opened_inline_device: ClDevice = None
        self._opened_by_listing = cl_device is None
        self.names = self._listed.names
        self.kind = self._listed.kind
        # cached_property is not thread-safe: handles could be created twice.
        self._lock = threading.RLock()
        self.short_name = quirks.short_name(self.names)
        #: What its driver said when it failed (failure.py); empty: it has not.
        self.failure = ""

    @property
    def cl_device(self) -> ClDevice:
        """The pyopencl Device; the first use opens its driver.

        Raises DriverChangedError where the driver no longer lists it, and DriverNotOpenedError
        where this process cannot open the driver.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> ClDevice:
        platform, number = self._listed.place
        inline_device = self._wanted_inline_device()
        try:
            with opening({} if inline_device is None else inline_device.variables):
                devices = driver_platforms(self.library)[platform].get_devices()
            if inline_device is not None:
                named = {d.name.strip(): d for d in devices}
                self._opened_inline_device = named.get(inline_device.name(self.names))
                devices = [d for d in devices if d is not self._opened_inline_device]
            found = devices[number]
        except (IndexError, load_pyopencl().Error):
            found = None
        if found is None or names_of(found) != self.names:
            if self._driver_changed is not None:
                self._driver_changed()
            raise DriverChangedError(str(self))
        for opened in (found, self._opened_inline_device):
            if opened is not None:
                cpu_name_override.override_cpu_name(opened, names_of(opened))
        return found

    @property
    def child_environment(self) -> tuple[str, Mapping[str, str]]:
        """For a process that is to use the device: the only driver to open, empty where it has to
        find that, and the variables of its environment.
        """
        if not self.variables:
            return "", {}
        # The other drivers need not be surveyed with these variables.
        return self.library, {**self.variables, "OCL_ICD_VENDORS": "/nonexistent"}

    def _wanted_inline_device(self) -> quirks.InlineDevice | None:
        """The additional device that the driver is to list, if the settings allow it."""
        inline_device = self._inline_device
        if inline_device is None or any(v in os.environ for v in inline_device.variables):
            return None
        return inline_device if Settings.resolve().calling_thread else None

    def _working_inline_device(self, info: DeviceInfo) -> Device | None:
        """The opened inline device, if kernels run correctly on it."""
        if self._opened_inline_device is None:
            return None
        assert self._inline_device is not None
        found = _CallingThreadDevice(
            info,
            self._opened_inline_device,
            library=self.library,
            variables=self._inline_device.variables,
        )
        tester = None if self.helper_of is None else self.helper_of(found).test
        key = f"{self.names.platform_version}|{self.names.name}|{found.names.name}"
        return (
            found
            if inline_device_works(key, found.names, found.child_environment, tester)
            else None
        )

    @property
    def calling_thread(self) -> Device | None:
        """The same processor, with kernels that run in the thread that launches them; None where
        the driver does not offer that, or fails the test of it.
        """
        with self._lock:
            return self._calling_thread

    @cached_property
    def _calling_thread(self) -> Device | None:
        info = self.info  # opens the driver
        if not info.zero_copy:
            return None
        found = self._working_inline_device(info)
        has_queues = found is None and EXTENSION in info.extensions
        if has_queues and calling_thread_works(info.key, self.names):
            found = _CallingThreadDevice(info, self._opened, self._listed)
        return found

    @property
    def info(self) -> DeviceInfo:
        """The facts; the first use on a machine runs self-tests (small kernels), or has the helper
        run them.
        """
        with self._lock:
            return self._info

    def leave_out_broken_builtins(self, builds: Builds) -> bool:
        """After its compiler has failed: avoid the functions on which it fails in emitted code.

        Returns whether any of them is new to ``info``. ``builds``: see ``builtin_check``.
        """
        info = self.info
        if info.profile != "vector":
            return False
        found = check_builtins(info.key, info.vector_width, builds)
        if found <= info.broken_builtins:
            return False
        _log.warning(
            "the driver's compiler fails on vectors of %s; code does without", ", ".join(found)
        )
        with self._lock:
            self._info = dataclasses.replace(info, broken_builtins=found)
            self.__dict__.pop("_calling_thread", None)  # has the same facts
        return True

    def ask_in_background(self) -> None:
        """Determine the facts in another thread; otherwise the first use waits 0.3 s for them."""
        if "_info" not in vars(self):
            threading.Thread(target=self._ask, name="ocl_inductor device").start()

    def _ask(self) -> None:
        try:
            self.info  # noqa: B018  (is kept)
        except Exception as error:
            _log.info("%s: %s", self, error)  # the first use raises the same error

    @property
    def context(self) -> ClContext:
        """The pyopencl Context of this device alone."""
        with self._lock:
            return self._context

    @property
    def queue(self) -> ClQueue:
        """The in-order pyopencl CommandQueue. Threads may share it."""
        with self._lock:
            return self._queue

    @cached_property
    def _info(self) -> DeviceInfo:
        info = DeviceInfo.from_pyopencl(self.cl_device)
        release_code()  # the queries are done: most of that code runs once
        if info.kind == "cpu" and info.profile == "vector":
            info = info.compiled_for(self._target(info))
            info = dataclasses.replace(info, broken_builtins=broken_builtins_of(info.key))
        if may_have_mma(self.cl_device, info.extensions) and mma_works(info.key, self.names):
            info = dataclasses.replace(info, mma="ptx")
        if not info.unified_memory:
            return info
        works = self._works_in_place(info)
        tiles = info.kind == "cpu" and matrix_unit.permitted() and amx_works(info.key, self.names)
        return dataclasses.replace(
            info,
            zero_copy=works,
            amx=tiles,
            bf16_dot=self._has_dot(info, "bf16_dot"),
            int8_dot=self._has_dot(info, "int8_dot"),
        )

    def _has_dot(self, info: DeviceInfo, name: DotName) -> bool:
        # A compiler that generates narrower code than the processor supports is assumed to target
        # an older processor.
        if info.profile != "vector" or info.vector_width < 16 or not has_dot(name):
            return False
        helper = None if self.helper_of is None else self.helper_of(self)
        tester = None if helper is None else partial(helper.has_dot, name)
        return dot_works(name, info.key, self.names, tester)

    def _target(self, info: DeviceInfo) -> CompileTarget | None:
        # A variable that sets the compiler's target is not part of the driver's own answers.
        told = (os.environ.get(name, "") for name in quirks.cpu_target_variables())
        asker = None if self.helper_of is None else self.helper_of(self).target
        return target_of("|".join((info.key, *told)), self.names, asker)

    def _works_in_place(self, info: DeviceInfo) -> bool:
        names = self.names if self._opened_by_listing else None
        tester = None if self.helper_of is None else self.helper_of(self).test
        return zero_copy_works(info.key, self._handles, names, tester)

    def _handles(self) -> tuple[ClContext, ClQueue]:
        return self.context, self.queue

    @cached_property
    def _context(self) -> ClContext:
        context = load_pyopencl().Context([self.cl_device])
        release_code()  # most of it was start-up code
        return context

    @cached_property
    def _queue(self) -> ClQueue:
        return load_pyopencl().CommandQueue(self.context)

    @property
    def sort_key(self) -> tuple[bool, int, int]:
        """Lower is preferred: discrete GPU, integrated GPU, CPU, others; simulators last."""
        preference = quirks.preference(self.names)
        if self.kind == "gpu":
            rank = 1 if self._listed.unified else 0
        else:
            rank = 2 if self.kind == "cpu" else 3
        return preference >= quirks.LAST_RESORT, rank, preference

    def __str__(self) -> str:
        return (
            f"{self.short_name} ({self.kind}): {self.names.name} "
            f"[{self.names.platform_name}, driver {self.names.driver_version}]"
        )

    def __repr__(self) -> str:
        return f"<Device {self}>"


class _CallingThreadDevice(Device):
    """A device that runs kernels in the thread that launches them: a separate inline device, or
    one whose queues support that.
    """

    def __init__(self, all_cores: DeviceInfo, cl_device: ClDevice, *args: Any, **more: Any) -> None:
        """``all_cores``: the facts of the same processor with all of its cores."""
        super().__init__(cl_device, *args, **more)
        self._all_cores = all_cores

    @property
    def calling_thread(self) -> Device | None:
        """None: this is it."""
        return None

    @cached_property
    def _info(self) -> DeviceInfo:
        return dataclasses.replace(
            self._all_cores,
            name=self.names.name,
            device_version=cpu_name_override.device_version(self.cl_device),
            compute_units=1,
        )

    @cached_property
    def _queue(self) -> ClQueue:
        return calling_queue(self.cl_device, self.context)
