"""A processor that is newer than the driver's compiler.

PoCL queries LLVM for the processor's name and passes the answer to LLVM with every program. An LLVM
older than the processor answers that it has no name for it, and then rejects that; or it answers
with an older one of the same family, without the newer one's instructions. The name is stored in
PoCL's own description of the device (``llvm_cpu`` of its ``struct _cl_device_id``) and read only
there: so it is replaced by an older processor, all of whose instructions this one has
(``CpuNameOverride`` in device/quirks.py), or by the one that OCL_INDUCTOR_CPU_TARGET requests.
"""

from __future__ import annotations

import os
import re

from ocl_inductor.device import quirks
from ocl_inductor.device.cpu.flags import cpu_flags
from ocl_inductor.device.driver.handles import ClDevice
from ocl_inductor.errors import UnknownOptionError
from ocl_inductor.log import logger
from ocl_inductor.patches.process.cpu_name import overwrite_text
from ocl_inductor.patches.process.driver_environment import set_for_good
from ocl_inductor.patches.switch import enabled

_log = logger(__name__)
#: The instructions that code for CPUs may use, by a name of ``quirks.CPU_TARGETS``: for tests.
_ENV = "OCL_INDUCTOR_CPU_TARGET"
#: The processor's name in a device's version, after the target triple.
_NAME = re.compile(r"-linux-(?:gnu|musl)-(\S+)$")
#: By the address of a device.
_overridden: dict[int, str] = {}


def override_cpu_name(device: ClDevice, names: quirks.Names) -> None:
    """Replace the processor's name in the driver of a pyopencl Device: by the requested one, or by
    a relative of this one where the driver does not know it.

    No effect where the driver knows it, where the patch is off, where the system does not let a
    process write its own memory, or where the name is not found there: then no program builds, as
    without the patch.

    Raises:
        UnknownOptionError: OCL_INDUCTOR_CPU_TARGET says nothing that exists.
    """
    found = _NAME.search(device.version.strip())
    if found is None or device.int_ptr in _overridden or not enabled("cpu_name"):
        return
    said = found.group(1)
    try:
        name = _asked_for(names) or _relative(said, names)
        if name is None:
            return
        overwrite_text(device.int_ptr, said.encode(), name.encode())
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
    """Before drivers open: pass OCL_INDUCTOR_CPU_TARGET to those that read the target from the
    environment, in their own variables. Variables set by the user stay.

    Raises:
        UnknownOptionError: no such target.
    """
    target = _forced_target()
    if target is not None:
        for variable, values in quirks.cpu_target_variables().items():
            set_for_good(variable, values[target])


def device_version(device: ClDevice) -> str:
    """The driver's answer, with the name of the processor for which it compiles."""
    version: str = device.version.strip()
    relative = _overridden.get(device.int_ptr)
    return version if relative is None else f"{version} as {relative}"
