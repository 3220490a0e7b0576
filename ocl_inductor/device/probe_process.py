"""The process in which a device is tested, and which prints the answer (probe.py asks it)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict

from ocl_inductor.device.command_buffer import command_buffer_test
from ocl_inductor.device.cpu import matrix_unit
from ocl_inductor.device.cpu.compile_target import compile_target
from ocl_inductor.device.cpu.dot_products import dot_test
from ocl_inductor.device.device import Device
from ocl_inductor.device.gpu.matrix_instructions import mma_test
from ocl_inductor.device.inline_queue import calling_queue
from ocl_inductor.device.probe import MARK
from ocl_inductor.device.quirks import Names
from ocl_inductor.device.select import devices_in, list_devices
from ocl_inductor.device.zero_copy import zero_copy_test


def _answers(question: str, names: Names, library: str) -> dict[str, object]:
    devices = devices_in(library) if library else list_devices()
    device = next(d for d in devices if d.names == names)
    if question == "target":
        target = compile_target(device.context)
        return {"target": {} if target is None else asdict(target)}
    return {question: _TESTS[question](device)}


def _calling_thread_test(device: Device) -> bool:
    return zero_copy_test(device.context, calling_queue(device.cl_device, device.context))


_TESTS: Mapping[str, Callable[[Device], bool]] = {
    "command_buffer": command_buffer_test,
    "amx": lambda device: (
        matrix_unit.permitted() and matrix_unit.amx_test(device.context, device.queue)
    ),
    "bf16_dot": lambda device: dot_test("bf16_dot", device.context, device.queue),
    "int8_dot": lambda device: dot_test("int8_dot", device.context, device.queue),
    "mma": lambda device: mma_test(device.context, device.queue),
    "calling_thread": _calling_thread_test,
    "zero_copy": lambda device: zero_copy_test(device.context, device.queue),
}


if __name__ == "__main__":
    _question, _facts, _library = sys.argv[1:]
    _found = _answers(_question, Names(**json.loads(_facts)), _library)
    print(f"\n{MARK}: {json.dumps(_found)}", flush=True)
    os._exit(0)  # some drivers crash at exit
