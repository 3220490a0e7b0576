"""A processor that is newer than the driver's compiler.

PoCL asks LLVM for the processor's name and gives the answer back to LLVM with every program. An
LLVM older than the processor says that it has no name for it, and refuses the answer; or it says
the name of an older one of the same family, without the newer one's instructions. The name
lies in PoCL's own description of the device (``llvm_cpu`` of its ``struct _cl_device_id``), and
nothing but that is asked: so an older processor is named there, all of whose instructions this one
has (``CpuNameOverride`` in device/quirks.py); and so is what OCL_INDUCTOR_CPU_TARGET asks for.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

from ocl_inductor.device import quirks
from ocl_inductor.device.cpu.flags import cpu_flags
from ocl_inductor.errors import UnknownOptionError
from ocl_inductor.log import logger

_log = logger(__name__)
_MEMORY = Path("/proc/self/mem")
#: The instructions that code for CPUs may use, by a name of ``quirks.CPU_TARGETS``: for tests.
_ENV = "OCL_INDUCTOR_CPU_TARGET"
#: Bytes of a driver's description of a device that are searched: PoCL 3.0 has the name at 640. The
#: description of its next device follows.
_DESCRIPTION = 1024
#: The processor's name in a device's version, behind the target triple.
_NAME = re.compile(r"-linux-(?:gnu|musl)-(\S+)$")
#: By the address of a device.
_overridden: dict[int, str] = {}


def override_cpu_name(device: Any, names: quirks.Names) -> None:
    """Name another processor to the driver of a pyopencl Device: the one that is asked for, or a
    relative of this one where the driver does not know it.

    Nothing happens where the driver knows it, where the system does not show a process its own
    memory, or where the name is not found there: then no program builds, as without.

    Raises:
        UnknownOptionError: OCL_INDUCTOR_CPU_TARGET says nothing that exists.
    """
    found = _NAME.search(device.version.strip())
    if found is None or device.int_ptr in _overridden:
        return
    said = found.group(1)
    try:
        name = _asked_for(names) or _relative(said, names)
        if name is None:
            return
        _replace(device.int_ptr, said.encode(), name.encode())
    except (OSError, LookupError) as error:
        _log.info("%s cannot be told of this processor: %s", names.platform_version, error)
        return
    _overridden[device.int_ptr] = name
    _log.info("%s calls this processor %s: it is told %s", names.platform_version, said, name)


def _forced_target() -> str | None:
    value = os.environ.get(_ENV)
    if not value:
        return None
    flags = cpu_flags()
    runs = tuple(name for name, needed in quirks.CPU_TARGETS.items() if needed <= flags)
    if value not in runs:
        raise UnknownOptionError(f"value of {_ENV} on this processor", value, runs)
    return value


def _asked_for(names: quirks.Names) -> str | None:
    target, targets = _forced_target(), quirks.cpu_targets(names)
    if target is None or targets is None or targets.variable:
        return None
    return targets.names[target]


def _relative(said: str, names: quirks.Names) -> str | None:
    override = next((x for x in quirks.cpu_name_overrides(names) if x.name == said), None)
    if override is None:
        return None
    flags = cpu_flags()
    return next((name for name, needed in override.relatives.items() if needed <= flags), None)


def set_target_variables() -> None:
    """Before drivers open: what OCL_INDUCTOR_CPU_TARGET asks for, in the words of those that take
    it from the environment. What a user has set there stays.

    Raises:
        UnknownOptionError: it says nothing that exists.
    """
    target = _forced_target()
    if target is not None:
        for variable, values in quirks.cpu_target_variables().items():
            os.environ.setdefault(variable, values[target])


def device_version(device: Any) -> str:
    """What the driver says, with the name of the processor for which it compiles."""
    version: str = device.version.strip()
    relative = _overridden.get(device.int_ptr)
    return version if relative is None else f"{version} as {relative}"


def _replace(description: int, old: bytes, new: bytes) -> None:
    """Overwrite the text ``old`` to which a pointer in a description leads: the first that does.

    Raises LookupError where none does or ``new`` is longer, and OSError where memory cannot be
    read.
    """
    if len(new) > len(old):
        raise LookupError("its name for it has no room for another")
    memory = os.open(
        _MEMORY, os.O_RDWR
    )  # says no to what is not mapped, where a pointer would trap
    try:
        block = os.pread(memory, _DESCRIPTION, description)
        pointers = (p for (p,) in struct.iter_unpack("P", block))
        found = (p for p in pointers if _read(memory, p, len(old) + 1) == old + b"\0")
        place = next(found, None)
        if place is None:
            raise LookupError("its name for it was not found")
        os.pwrite(memory, new + b"\0", place)
    finally:
        os.close(memory)


def _read(memory: int, address: int, size: int) -> bytes:
    try:
        return os.pread(memory, size, address)
    except (OSError, OverflowError):
        return b""
