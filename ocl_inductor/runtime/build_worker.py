"""The process that compiles kernels: ``python -m ocl_inductor.runtime.build_worker <device>``.

A driver's compiler keeps what it takes: after a dozen kernels a process is 100 to 200 MiB larger,
and never gets smaller. So sources come here, binaries go back (see builders.py), and the memory
goes with the process. It ends when its input does, or when nothing came for a while.

Standard input: pickled jobs, each the source and the build options of a program. Standard output:
a pickled ``True`` when the device is open, then for each job, in order, the program's binary; empty
where the driver refuses the source or gives no binary.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import sys
from typing import BinaryIO

from ocl_inductor.device import Device, list_devices
from ocl_inductor.drivers import load_pyopencl
from ocl_inductor.quirks import Names
from ocl_inductor.runtime.driver_programs import binary_of, program_from_source

#: Without a job for so long, it ends by itself.
IDLE_SECONDS = 20.0


def serve(device: Device, jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer jobs until there are no more."""
    device.context  # noqa: B018  (opens the driver)
    _send(answers, True)
    while True:
        ready, _, _ = select.select([jobs], [], [], IDLE_SECONDS)
        if not ready:
            return
        try:
            source, options = pickle.load(jobs)
        except EOFError:
            return
        _send(answers, _build(source, options, device))


def _build(source: str, options: tuple[str, ...], device: Device) -> bytes:
    try:
        return binary_of(program_from_source(source, options, device))
    except load_pyopencl().Error:
        return b""  # whoever asked builds it too, and gets the driver's message


def _send(answers: BinaryIO, value: bool | bytes) -> None:
    pickle.dump(value, answers)
    answers.flush()


def _main() -> None:
    # Drivers print to standard output; the answers go where they do not.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    names = Names(**json.loads(sys.argv[1]))
    device = next(d for d in list_devices() if d.names == names)
    # A job comes when the last one was answered, so the buffer holds nothing that select() misses.
    serve(device, os.fdopen(0, "rb"), answers)


if __name__ == "__main__":
    try:
        _main()
    except BrokenPipeError:
        pass  # nobody waits for the answer any more
    finally:
        os._exit(0)  # some drivers do not end well
