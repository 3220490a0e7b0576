"""pyopencl, imported with every OpenCL driver visible to it.

pyopencl's wheel bundles a loader that reads the folder ``OCL_ICD_VENDORS`` (by default the
system's) once, at the first ``clGetPlatformIDs``, and adds the drivers in its own folder.

On Linux we open the drivers ourselves, each when it is used (icd_loader.py, inventory.py); the
loader then finds nothing, and only forwards calls. Elsewhere, and where the user controls the
loader, we put ``.icd`` files for every driver, the system's included, into a temporary folder and
name that folder, only while the loader reads it: child processes see the user's environment.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from types import ModuleType

from ocl_inductor.device import fork
from ocl_inductor.device.driver import icd_loader, inventory
from ocl_inductor.device.driver.code_pages import DriverCode
from ocl_inductor.device.driver.cpu_name_override import set_target_variables
from ocl_inductor.device.driver.discovery import find_drivers, vendor_folder
from ocl_inductor.device.driver.handles import ClPlatform
from ocl_inductor.errors import DriverNotOpenedError
from ocl_inductor.log import logger
from ocl_inductor.patches.process.driver_environment import variables_set
from ocl_inductor.patches.pyopencl import pyopencl_invokers, pyopencl_platforms, pyopencl_warnings

_log = logger(__name__)
_ENV = "OCL_ICD_VENDORS"
# The environment is changed while the loader reads it.
_lock = threading.RLock()
#: A path at which the loader finds nothing. With an empty folder it would still use its own.
_NOWHERE = "/nonexistent"


def load_pyopencl() -> ModuleType:
    """Import pyopencl, with every driver visible.

    A user's own OCL_ICD_VENDORS is not changed. Raises ImportError where pyopencl is missing, and
    ForkedProcessError in a child of a process that had loaded it.
    """
    fork.check()
    with _lock:
        return _load()


@cache
def _load() -> ModuleType:
    fork.drivers_loaded()
    if "pyopencl" in sys.modules:
        _log.info(
            "pyopencl was imported first: if it has listed platforms already, drivers that come "
            "with a wheel may be missing; import torch and compile before that to see them"
        )
    set_target_variables()
    child_environment = surveyed() is not None
    with _vendors_in_environment(child_environment):
        import pyopencl

        pyopencl_warnings.ignore_build_logs(pyopencl)
        pyopencl_invokers.keep_in_memory(pyopencl)
        try:
            pyopencl.get_platforms()
        except pyopencl.Error as error:  # none at all: the caller's listing says so
            if not child_environment:
                _log.info("no OpenCL platform: %s", error)
    if child_environment:
        pyopencl_platforms.list_with(pyopencl, _every_platform)
    module: ModuleType = pyopencl
    return module


@cache
def surveyed() -> tuple[inventory.Library, ...] | None:
    """The drivers and what they list, none of them opened; None where the loader opens them all."""
    with _lock:
        names = find_drivers() if icd_loader.possible() else []
        return inventory.survey(names) if names else None


def forget_survey() -> None:
    """A driver's devices differ from the cached ones: query all drivers again."""
    inventory.forget(find_drivers())
    surveyed.cache_clear()


def driver_platforms(library: str) -> list[ClPlatform]:
    """The pyopencl Platforms of a driver that ``surveyed`` names; opens it.

    Raises DriverNotOpenedError where this process cannot open it.
    """
    cl = load_pyopencl()
    with _lock:
        return [cl.Platform.from_int_ptr(x) for x in _platform_ids(library)]


def release_code() -> None:
    """Release the memory of the opened drivers' code; pages used again are reloaded on demand."""
    if surveyed() is not None:
        with _lock:
            _code().release()


@cache
def _code() -> DriverCode:
    return DriverCode()


@cache
def _platform_ids(library: str) -> list[int]:
    code = _code()  # earlier mappings are not the driver's
    # Linking it touches 90 MiB of Intel's runtime, half of that in a library it depends on: that
    # half is released before the other is loaded.
    for part in next((x.parts for x in surveyed() or () if x.name == library), ()):
        if icd_loader.open_library(part) is not None:
            code.release()
    try:
        return icd_loader.platform_ids(library)
    except icd_loader.NeedsLoaderError:  # it was replaced since the survey
        forget_survey()
        return []


def _every_platform() -> list[ClPlatform]:
    found: list[ClPlatform] = []
    for library in surveyed() or ():
        try:
            found += driver_platforms(library.name)
        except DriverNotOpenedError as error:
            _log.info("%s", error)
    return found


@contextmanager
def opening(variables: Mapping[str, str]) -> Iterator[None]:
    """Around the opening of a driver: with further variables in the environment."""
    with _lock, variables_set(variables):
        yield


@contextmanager
def _vendors_in_environment(child_environment: bool) -> Iterator[None]:
    if not child_environment and os.environ.get(_ENV):
        _log.debug("%s=%s is the user's: left alone", _ENV, os.environ[_ENV])
        yield
        return
    with ExitStack() as stack:
        folder = _NOWHERE
        if not child_environment:
            try:
                folder = str(stack.enter_context(vendor_folder(find_drivers())))
            except OSError as error:
                _log.info("drivers that come with a wheel may be missing: %s", error)
                folder = ""
        stack.enter_context(variables_set({_ENV: folder} if folder else {}))
        yield
