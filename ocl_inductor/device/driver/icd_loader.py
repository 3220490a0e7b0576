"""One OpenCL driver, opened without the OpenCL loader.

The loader opens every driver there is, and each brings a compiler of its own: 100 MiB of resident
memory and a third of a second for drivers that are not used. A driver's objects carry the table
of its functions, through which all later calls are dispatched, so it is enough to query its library
for platforms as the loader does (``clIcdGetPlatformIDsKHR`` of the extension cl_khr_icd).
"""

from __future__ import annotations

import ctypes
import os
import sys

from ocl_inductor.device.driver.code_pages import mapped_libraries
from ocl_inductor.errors import DriverNotOpenedError
from ocl_inductor.log import logger

_log = logger(__name__)

#: Marker in place of clGetPlatformIDs in the table of a driver that uses the loader's table instead
#: (version 2 of cl_khr_icd): only the loader can open it.
_LOADER_ONLY = 0x4943443331

_PlatformIds = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_uint),
)
_Address = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)

#: Variables by which a user, or a tool, controls the loader itself.
_LOADER_VARIABLES = (
    "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",
    "OPENCL_VENDOR_PATH",
    "OPENCL_LAYERS",
    "LD_PRELOAD",
)


class NeedsLoaderError(Exception):
    """Only the OpenCL loader can open this driver."""


def possible() -> bool:
    """Whether drivers may be opened here without the loader."""
    return (
        sys.platform == "linux"
        and "pyopencl" not in sys.modules  # it may have listed platforms already
        and not any(os.environ.get(name) for name in _LOADER_VARIABLES)
    )


def open_library(library: str) -> int | None:
    """Its handle; None where it cannot be opened (the log says why). It stays open to the end."""
    try:
        return _opened(library)
    except DriverNotOpenedError as error:
        _log.info("%s", error)
        return None


def _opened(library: str) -> int:
    """Its handle. Raises DriverNotOpenedError."""
    functions = _dynamic_loader()
    # Not ctypes' own way, which resolves every symbol at once.
    handle = functions.dlopen(os.fsencode(library), os.RTLD_LAZY | os.RTLD_LOCAL)
    if not handle:
        why = (functions.dlerror() or b"").decode(errors="replace")
        raise DriverNotOpenedError(library, why, _names_taken(library))
    return int(handle)


def _names_taken(library: str) -> list[str]:
    """Libraries of this process that are called as some beside ``library`` are.

    The dynamic loader takes a library that is there for one of the same name, whatever its version:
    OpenVINO's libtbb.so.12 lacks functions that Intel's OpenCL runtime calls.
    """
    folder = os.path.dirname(os.path.realpath(library))
    try:
        beside = {name.split(".so")[0] for name in os.listdir(folder) if ".so" in name}
    except OSError:
        return []
    return sorted(
        path
        for path in mapped_libraries()
        if os.path.basename(path).split(".so")[0] in beside
        and os.path.dirname(os.path.realpath(path)) != folder
    )


def platform_ids(library: str) -> list[int]:
    """The ``cl_platform_id`` handles of a driver; none where it is no driver or lists none.

    Raises:
        DriverNotOpenedError: it cannot be opened in this process.
        NeedsLoaderError: see there.
    """
    handle = _opened(library)
    find = _dynamic_loader().dlsym(handle, b"clGetExtensionFunctionAddress")
    listing = _Address(find)(b"clIcdGetPlatformIDsKHR") if find else None
    if not listing:
        _log.info("%s is no driver: it lacks clIcdGetPlatformIDsKHR", library)
        return []
    ask, count = _PlatformIds(listing), ctypes.c_uint()
    if ask(0, None, ctypes.byref(count)) != 0 or count.value == 0:
        return []
    handles = (ctypes.c_void_p * count.value)()
    if ask(count.value, handles, None) != 0:
        return []
    found = [h for h in handles if h]
    if any(_first_function(h) == _LOADER_ONLY for h in found):
        raise NeedsLoaderError(library)
    return found


def _dynamic_loader() -> ctypes.CDLL:
    functions = ctypes.CDLL(None)
    functions.dlopen.restype = functions.dlsym.restype = ctypes.c_void_p
    functions.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    functions.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    functions.dlerror.restype = ctypes.c_char_p
    return functions


def _first_function(platform: int) -> int | None:
    table = ctypes.c_void_p.from_address(platform).value
    return ctypes.c_void_p.from_address(table).value if table else None
