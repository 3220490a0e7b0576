"""Finding OpenCL drivers: what must be in place before the OpenCL loader looks.

pyopencl's wheel bundles a loader that reads the folder ``OCL_ICD_VENDORS`` (by default the
system's) once, at the first ``clGetPlatformIDs``, and adds the drivers that lie beside itself. A
driver wheel may come with an ``.icd`` file that names a placeholder path, so that nothing finds it.

On Linux we open the drivers ourselves, each when it is used (driver_library.py, driver_survey.py);
the loader then finds nothing, and only passes calls on. Elsewhere, and where the user steers the
loader, we put ``.icd`` files for every driver, the system's included, into a temporary folder and
name that folder, only for as long as the loader looks: child processes see the user's environment.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import site
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ocl_inductor import driver_library, driver_survey, fork, quirks
from ocl_inductor.driver_code import DriverCode
from ocl_inductor.driver_processor import set_target_variables
from ocl_inductor.log import logger
from ocl_inductor.unregistered import unregistered

_log = logger(__name__)
_ENV = "OCL_ICD_VENDORS"
# The environment is changed while the loader looks.
_lock = threading.RLock()
_SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
#: Where the loader finds nothing. An empty folder would leave what lies beside it.
_NOWHERE = "/nonexistent"


def load_pyopencl() -> ModuleType:
    """Import pyopencl, with every driver visible.

    A user's own OCL_ICD_VENDORS is left alone. Raises ImportError where pyopencl is missing, and
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
    apart = surveyed() is not None
    with _vendors_in_environment(apart):
        import pyopencl

        # It repeats every non-empty build log as a warning; errors carry the log anyway. A filter
        # around each build would not do: warnings.catch_warnings is not safe in threads.
        warnings.filterwarnings("ignore", category=pyopencl.CompilerWarning)
        _keep_invokers_in_memory(pyopencl)
        try:
            pyopencl.get_platforms()
        except pyopencl.Error as error:  # none at all: the caller's listing says so
            if not apart:
                _log.info("no OpenCL platform: %s", error)
    if apart:
        pyopencl.get_platforms = _every_platform  # for programs that use pyopencl themselves
    return pyopencl


@cache
def surveyed() -> tuple[driver_survey.Library, ...] | None:
    """The drivers and what they list, none of them opened; None where the loader opens them all."""
    with _lock:
        names = find_drivers() if driver_library.possible() else []
        return driver_survey.survey(names) if names else None


def forget_survey() -> None:
    """A driver lists something else than was remembered: have all of them asked again."""
    driver_survey.forget(find_drivers())
    surveyed.cache_clear()


def driver_platforms(library: str) -> list[Any]:
    """The pyopencl Platforms of a driver that ``surveyed`` names; opens it."""
    cl = load_pyopencl()
    with _lock:
        return [cl.Platform.from_int_ptr(x) for x in _platform_ids(library)]


def release_code() -> None:
    """Give back the memory of the opened drivers' code; what is used again comes back by itself."""
    if surveyed() is not None:
        with _lock:
            _code().release()


@cache
def _code() -> DriverCode:
    return DriverCode()


@cache
def _platform_ids(library: str) -> list[int]:
    code = _code()  # what is mapped before is not the driver's
    # Linking it touches 90 MiB of Intel's runtime, half of that in a library which it needs: that
    # half is given back before the other begins.
    for part in next((x.parts for x in surveyed() or () if x.name == library), ()):
        if driver_library.open_library(part) is not None:
            code.release()
    try:
        return driver_library.platform_ids(library)
    except driver_library.NeedsLoaderError:  # it was replaced since the survey
        forget_survey()
        return []


def _every_platform() -> list[Any]:
    return [p for x in surveyed() or () for p in driver_platforms(x.name)]


def _keep_invokers_in_memory(pyopencl: ModuleType) -> None:
    """Keep pyopencl from writing to the disk each time it makes a kernel object.

    It keeps the Python code that sets a kernel's arguments in a database below the user's cache
    folder, and raises where that cannot be written: on a full disk, or without a home. To generate
    the code takes 0.6 ms, so kernels with as many arguments share it.
    """
    flag = "_PYOPENCL_NO_CACHE"
    if getattr(pyopencl, flag, True):
        return  # the user switched it off, or this version has no such thing
    setattr(pyopencl, flag, True)  # so that importing the module opens no database
    try:
        from pyopencl import invoker
    finally:
        setattr(pyopencl, flag, False)
    invoker.invoker_cache = _InMemory()


class _InMemory:
    """What pyopencl asks of its database, without one.

    A key is a kernel's name and what its code depends on: the numbers and types of arguments. The
    name, which is part of a function's, is left out.
    """

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        return self.known[repr(key[1:])]

    def store_if_not_present(self, key: tuple[Any, ...], value: Any) -> None:
        self.known.setdefault(repr(key[1:]), value)


@contextmanager
def opening(variables: Mapping[str, str]) -> Iterator[None]:
    """Around the opening of a driver: with further variables in the environment."""
    with _lock:
        os.environ.update(variables)
        try:
            yield
        finally:
            for name in variables:
                os.environ.pop(name, None)


@contextmanager
def _vendors_in_environment(apart: bool) -> Iterator[None]:
    if not apart and os.environ.get(_ENV):
        _log.debug("%s=%s is the user's: left alone", _ENV, os.environ[_ENV])
        yield
        return
    with ExitStack() as stack:
        if apart:
            os.environ[_ENV] = _NOWHERE
        else:
            try:
                folder = stack.enter_context(vendor_folder(find_drivers()))
                os.environ[_ENV] = str(folder)
            except OSError as error:
                _log.info("drivers that come with a wheel may be missing: %s", error)
        try:
            yield
        finally:
            os.environ.pop(_ENV, None)


@dataclass(frozen=True, slots=True)
class IcdFile:
    """One ``.icd`` file: the text in it, and the library that it stands for.

    ``library`` is empty where there is none, and ``problem`` says why; ``repaired``: the text names
    a placeholder, and the library was found elsewhere.
    """

    path: Path
    text: str
    library: str
    problem: str = ""
    repaired: bool = False


def find_drivers() -> list[str]:
    """Driver libraries, as an ``.icd`` file names them: paths, or names for the system's loader.

    Those that are there without such a file come last.
    """
    files = (icd for folder in vendor_folders() if folder.is_dir() for icd in icd_files(folder))
    named = list(dict.fromkeys(icd.library for icd in files if icd.library))
    return [*named, *unregistered(named)]


def icd_files(folder: Path) -> list[IcdFile]:
    """The ``.icd`` files of a folder, by name."""
    return [_read_icd(path) for path in sorted(folder.glob("*.icd"))]


def vendor_folders() -> list[Path]:
    """Where ``.icd`` files are looked for; not all of them need to exist."""
    folders = [_SYSTEM_VENDORS]
    for prefix in (sys.prefix, site.getuserbase()):
        folders.append(Path(prefix, "etc", "OpenCL", "vendors"))
    # A wheel installed elsewhere (--target) is found through its metadata.
    for name in quirks.DRIVER_WHEELS:
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        folders += [Path(str(f.locate())).resolve().parent for f in files if f.suffix == ".icd"]
    return list(dict.fromkeys([*folders, *_beside_the_loader()]))


def _beside_the_loader() -> Iterator[Path]:
    """The folder of libraries in pyopencl's wheel, into which other wheels put drivers."""
    found = importlib.util.find_spec("pyopencl")
    if found is not None and found.origin is not None:
        package = Path(found.origin).parent
        yield from (x for x in (package / ".libs", package.parent / "pyopencl.libs") if x.is_dir())


def _read_icd(path: Path) -> IcdFile:
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        return IcdFile(path, "", "", f"it cannot be read: {error}")
    if not text:
        return IcdFile(path, "", "", "it is empty")
    library = Path(text)
    if not library.is_absolute():
        if (path.parent / library).is_file():  # beside the loader
            return IcdFile(path, text, str(path.parent / library))
        return IcdFile(path, text, text)  # a name the dynamic loader resolves
    if library.exists():
        return IcdFile(path, text, str(library.resolve()))
    # <prefix>/etc/OpenCL/vendors/x.icd with a placeholder path: the file lies in <prefix>/lib.
    beside = path.parents[3] / "lib" / library.name if len(path.parents) > 3 else library
    if beside.exists():
        return IcdFile(path, text, str(beside.resolve()), repaired=True)
    return IcdFile(path, text, "", f"the library it names does not exist: {text}")


@contextmanager
def vendor_folder(libraries: list[str]) -> Iterator[Path]:
    """A folder with one ``.icd`` a library and nothing else, for as long as the loader looks.

    The loader opens whatever is named there, so the folder is a new one each time, and ours alone.
    Raises OSError where no folder can be made.
    """
    with tempfile.TemporaryDirectory(
        prefix="ocl_inductor_icd_", ignore_cleanup_errors=True
    ) as made:
        folder = Path(made)
        for number, library in enumerate(libraries):
            (folder / f"{number:02d}.icd").write_text(library + "\n")
        yield folder
