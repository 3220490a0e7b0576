"""The steps from .icd files to devices, with advice where one fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ocl_inductor.device import quirks
from ocl_inductor.device.driver.discovery import IcdFile, icd_files, vendor_folders
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.driver.unregistered import unregistered
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.device.select import list_devices
from ocl_inductor.observe.diagnosis.finding import Finding
from ocl_inductor.settings import default_cache_dir
from ocl_inductor.support import child_process
from ocl_inductor.support.atomic_file import TEMPORARY_SUFFIX
from ocl_inductor.support.private_folder import DistrustedError, PrivateFolder

_ENV = "OCL_ICD_VENDORS"
_INSTALL = (
    '`pip install "ocl-inductor[cpu]"` brings two drivers for the CPU; a GPU needs its vendor\'s'
)
_LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
_LOAD_SECONDS = 60
_SYSTEM = Path("/")
_TRIAL = f"doctor{TEMPORARY_SUFFIX}"


def discovery() -> Iterator[Finding]:
    """Each step in its order. Where pyopencl is missing there is nothing to see after it."""
    loader = _pyopencl()
    yield loader
    yield from _environment()
    yield from _files()
    if loader.state == "problem":
        return
    yield from _platforms()
    yield from _hardware()
    yield _cache_folder()


def _pyopencl() -> Finding:
    step = "pyopencl and the OpenCL loader"
    try:
        cl = load_pyopencl()
    except ImportError as error:
        if "libOpenCL" in str(error):
            return Finding(
                step,
                "problem",
                f"pyopencl finds no OpenCL loader: {error}",
                "Install the loader (package ocl-icd-libopencl1), or pyopencl's wheel, which "
                "contains one: `pip install --force-reinstall --only-binary :all: pyopencl`.",
            )
        return Finding(
            step,
            "problem",
            f"pyopencl cannot be imported: {error}",
            "Install it: `pip install pyopencl`.",
        )
    folder = Path(str(cl.__file__)).parent
    try:
        number = version("pyopencl")
    except PackageNotFoundError:
        number = "of unknown version"
    return Finding(step, "ok", f"pyopencl {number} in {folder}")


def _environment() -> Iterator[Finding]:
    step = "environment"
    given = os.environ.get(_ENV)
    if not given:
        yield Finding(step, "ok", f"{_ENV} is not set: all drivers below are offered to the loader")
    elif not Path(given).exists():
        yield Finding(
            step,
            "problem",
            f"{_ENV}={given} does not exist, so the loader sees no driver there",
            f"Unset {_ENV}, or let it name a folder of .icd files.",
        )
    elif Path(given).is_dir() and not list(Path(given).glob("*.icd")):
        yield Finding(
            step,
            "problem",
            f"{_ENV}={given} holds no .icd file, so the loader sees no driver there",
            f"Unset {_ENV}, or put .icd files there.",
        )
    else:
        yield Finding(
            step,
            "warning",
            f"{_ENV}={given} is yours and left alone: the loader looks there instead of in the "
            "folders below, and drivers whose .icd file needs repair are not offered",
            f"Unset {_ENV} to see every driver.",
        )
    for name, what in quirks.VARIABLES.items():
        if os.environ.get(name):
            yield Finding(step, "note", f"{name}={os.environ[name]}: {what}")


def _files() -> Iterator[Finding]:
    given = os.environ.get(_ENV)
    folders = [Path(given)] if given and Path(given).is_dir() else vendor_folders()
    libraries: set[str] = set()
    for folder in folders:
        step = f"drivers in {folder}"
        if not folder.is_dir():
            yield Finding(step, "note", "there is no such folder")
            continue
        files = icd_files(folder)
        if not files:
            yield Finding(step, "note", "no .icd file")
        for icd in files:
            yield _file(step, icd)
            libraries |= {icd.library} - {""}
    for library in unregistered(tuple(libraries)) if not given else ():
        error = _load_error(library)
        found = f"{library}, which no .icd file names"
        if error:
            yield Finding("other drivers", "warning", f"{found}, cannot be loaded: {error}")
        else:
            yield Finding("other drivers", "ok", found)
        libraries.add(library)
    if not libraries:
        yield Finding(
            "drivers",
            "warning",
            "no .icd file names a driver; only those beside the loader are left",
            f"Install a driver: {_INSTALL}.",
        )


def _file(step: str, icd: IcdFile) -> Finding:
    name = icd.path.name
    if icd.problem:
        return Finding(
            step,
            "warning",
            f"{name}: {icd.problem}",
            "Reinstall the driver that this file belongs to; harmless if you do not need it.",
        )
    error = _load_error(icd.library)
    if error:
        missing = error.split(":")[0].strip() if "cannot open shared object" in error else ""
        return Finding(
            step,
            "warning",
            f"{name}: {icd.library} cannot be loaded: {error}",
            f"Install what provides {missing}, or reinstall the driver."
            if missing and missing != icd.library
            else "Reinstall the driver.",
        )
    how = f", named as {icd.text}, which does not exist (repaired)" if icd.repaired else ""
    return Finding(step, "ok", f"{name}: {icd.library}{how}")


def _load_error(library: str) -> str:
    """Why the dynamic loader refuses a library; tried in a child process, which may crash."""
    done = child_process.run([sys.executable, "-c", _LOAD, library], _LOAD_SECONDS)
    if done.code is None:
        return f"it takes more than {_LOAD_SECONDS} s"
    if done.code < 0:
        return f"it ends the process with {done.how}"
    if done.code == 0:
        return ""
    return (child_process.last_line(done.stderr) or "unknown error").removeprefix("OSError: ")


def _platforms() -> Iterator[Finding]:
    step = "platforms and devices"
    cl = load_pyopencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        yield Finding(
            step,
            "problem",
            f"the loader lists no platform: {error}",
            f"Install a driver: {_INSTALL}. If one is installed, see the steps above.",
        )
        return
    for platform in platforms:
        label = f"{platform.name.strip()} ({platform.version.strip()})"
        try:
            count = len(platform.get_devices())
        except cl.Error as error:
            yield Finding(
                step,
                "warning",
                f"{label}: no device: {error}",
                "The driver is there but finds no hardware it may use: is a GPU's kernel module "
                "loaded, and may you open its device file?",
            )
            continue
        if count == 0:
            hints = [h for name, h in quirks.HIDDEN_DEVICES.items() if name in label.lower()]
            yield Finding(step, "note", f"{label}: no device", " ".join(hints))
        else:
            yield Finding(step, "ok", f"{label}: {count} device{'s' * (count != 1)}")
    devices = list_devices()
    if not devices:
        yield Finding(step, "problem", "no platform has a device", f"Install one: {_INSTALL}.")
    for device in devices:
        yield _device(str(device), device.info)


def _device(device: str, info: DeviceInfo) -> Finding:
    step = "platforms and devices"
    if info.opencl_c_version < (1, 2) or info.device_version.startswith("OpenCL 1.1"):
        return Finding(
            step,
            "warning",
            f"{device}: {info.device_version} is older than OpenCL 1.2, which kernels need",
            "Update the driver.",
        )
    return Finding(step, "ok", device)


def _hardware(system: Path = _SYSTEM) -> Iterator[Finding]:
    """GPUs that the kernel knows of, and whether their files may be opened."""
    step = "GPUs"
    with_driver = {d.names.vendor.lower() for d in list_devices() if d.kind == "gpu"}
    makers = set()
    for card in sorted((system / "sys/class/drm").glob("card[0-9]*/device/vendor")):
        try:
            makers.add(int(card.read_text().strip(), 16))
        except (OSError, ValueError):
            continue
    for maker in sorted(makers & quirks.GPU_MAKERS.keys()):
        name, source = quirks.GPU_MAKERS[maker]
        if any(name.lower() in vendor for vendor in with_driver):
            yield Finding(step, "ok", f"{name}: in the machine, and an OpenCL device")
        else:
            yield Finding(
                step,
                "warning",
                f"{name}: in the machine, but no driver offers it",
                f"Install {source}.",
            )
    for node in sorted((system / "dev/dri").glob("renderD*")):
        if not os.access(node, os.R_OK | os.W_OK):
            yield Finding(
                step,
                "warning",
                f"{node} may not be opened by this user",
                f"Join the group that owns it ({_group(node)}): "
                f"`sudo usermod -aG {_group(node)} $USER`, then log in again.",
            )
    if not makers & quirks.GPU_MAKERS.keys():
        yield Finding(step, "note", "the system lists none of a maker that is known here")


def _group(node: Path) -> str:
    try:
        return node.group()
    except (KeyError, OSError):
        return "render"


def _cache_folder() -> Finding:
    step, folder = "cache folder", PrivateFolder(default_cache_dir())
    try:
        folder.write(_TRIAL, b"x")
        folder.remove(_TRIAL)
    except OSError as error:
        why = str(error) if isinstance(error, DistrustedError) else error.strerror
        return Finding(
            step,
            "warning",
            f"{folder.path} cannot be used ({why}): everything is built anew each time",
            "Make room or permission, or let OCL_INDUCTOR_CACHE_DIR name another folder.",
        )
    return Finding(step, "ok", str(folder.path))
