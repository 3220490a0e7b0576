"""The process that compiles kernels.

``python -m ocl_inductor.runtime.build.worker <device> <folder> <library>``

A driver's compiler does not free its memory: after a dozen kernels a process is 100 to 200 MiB
larger, and never gets smaller. So sources are sent here, binaries returned (see builders.py), and
the memory is freed with the process. It ends when its input does, or after a while without jobs.
The folder, unless its name is empty, is private (unused_variant.py): it is removed at the end,
after SIGTERM too, and a later worker removes the folder of one that was killed. The library is that
of the only driver to open, or empty (``Device.child_environment``).

Standard input: pickled jobs, each the source and the build options of a program. Standard output:
a pickled ``True`` when the compiler is loaded, then for each job, in order, the program's binary;
empty where the driver refuses the source or gives no binary. A job may be a query instead:
``zero_copy``, whether the device works in place (device/zero_copy.py): non-empty for yes;
``bf16_dot`` and ``int8_dot``, whether it has the CPU's dot products (device/cpu/dot_products.py),
likewise; ``target``, what its compiler makes code for (device/cpu/compile_target.py), as JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from ocl_inductor.device import quirks
from ocl_inductor.device.cpu.compile_target import compile_target
from ocl_inductor.device.cpu.dot_products import DotName, dot_test
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.device.select import devices_in, list_devices
from ocl_inductor.device.zero_copy import zero_copy_test
from ocl_inductor.runtime.build.driver_programs import binary_of, program_from_source
from ocl_inductor.runtime.build.unused_variant import binary_without, can_leave_out
from ocl_inductor.support.temporary import hold, remove_abandoned

#: The binary of the program that a function builds.
Take: TypeAlias = Callable[[Callable[[], object]], bytes]
Question: TypeAlias = Literal["zero_copy", "target"] | DotName
Job: TypeAlias = tuple[str, tuple[str, ...]] | Question

#: The worker exits after so long without a job.
IDLE_SECONDS = 20.0
#: Built before there are jobs: the first program makes a driver load its compiler's library, 0.45 s
#: on PoCL, 0.1 on Intel's.
_FIRST = "__kernel void first(__global float *a) { a[0] = 1.0f; }"
_YES = b"yes"
_WATCH_SECONDS = 0.5


def serve(device: Device, take: Take, jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer jobs until there are no more; ``take``: gives the binary of what it builds."""
    options = DeviceInfo.from_pyopencl(device.cl_device).build_options
    _build(_FIRST, options, device, take)
    _send(answers, True)
    while True:
        ready, _, _ = select.select([jobs], [], [], IDLE_SECONDS)
        if not ready:
            return
        try:
            job: Job = pickle.load(jobs)
        except EOFError:
            return
        if isinstance(job, tuple):
            _send(answers, _build(*job, device, take))
        else:
            _send(answers, _QUESTIONS[job](device))


def _build(source: str, options: tuple[str, ...], device: Device, take: Take) -> bytes:
    try:
        return take(lambda: program_from_source(source, options, device))
    except (load_pyopencl().Error, OSError):
        return b""  # the parent process builds it too, and gets the driver's message


def _test(device: Device) -> bytes:
    try:
        return _YES if zero_copy_test(device.context, device.queue) else b""
    except load_pyopencl().Error:
        return b""


def _target(device: Device) -> bytes:
    try:
        target = compile_target(device.context)
    except load_pyopencl().Error:
        target = None
    return json.dumps({} if target is None else asdict(target)).encode()


def _dot(name: DotName, device: Device) -> bytes:
    try:
        return _YES if dot_test(name, device.context, device.queue) else b""
    except load_pyopencl().Error:
        return b""


_QUESTIONS: Mapping[Question, Callable[[Device], bytes]] = {
    "zero_copy": _test,
    "target": _target,
    "bf16_dot": partial(_dot, "bf16_dot"),
    "int8_dot": partial(_dot, "int8_dot"),
}


def _send(answers: BinaryIO, value: bool | bytes) -> None:
    pickle.dump(value, answers)
    answers.flush()


def _main(names: quirks.Names, folder: str, library: str) -> None:
    # Drivers print to standard output, so answers use a duplicate of it.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    listed = [] if library else list_devices()
    take = _steer(names, folder)
    device = next(d for d in listed or devices_in(library) if d.names == names)
    # The next job is sent after the last answer, so select() misses nothing in the buffer.
    serve(device, take, os.fdopen(0, "rb"), answers)


def _steer(names: quirks.Names, folder: str) -> Take:
    """Before the driver is opened, and after it is listed (device/driver/inventory.py says why)."""
    for name, value in quirks.compiling(names).items():
        os.environ.setdefault(name, value)
    unused_variant = quirks.unused_variant(names)
    if unused_variant is None or not folder or not can_leave_out(Path(folder)):
        return lambda build: binary_of(build())
    os.environ[unused_variant.variable] = folder
    return partial(binary_without, unused_variant, Path(folder))


def _end_with_parent(folder: str) -> None:
    """End when the process that started this one has: a driver's compiler may go on for minutes."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, name="ocl_inductor parent", daemon=True).start()


if __name__ == "__main__":
    _names, _folder, _library = sys.argv[1:]
    _end_with_parent(_folder)
    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        if _folder:
            _held = hold(Path(_folder))
            remove_abandoned(Path(_folder).parent)
        _main(quirks.Names(**json.loads(_names)), _folder, _library)
    except BrokenPipeError:
        pass  # the parent process no longer waits for the answer
    finally:
        if _folder:  # the process that made it may have ended
            shutil.rmtree(_folder, ignore_errors=True)
        os._exit(0)  # some drivers crash at exit
