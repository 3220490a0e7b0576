"""Small programs whose results are known, on one device.

They run in a process of their own (this file as a module), since a driver can end the process; each
result is a line of JSON, so that the last line tells how far it came.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from ocl_inductor.device.command_buffer import EXTENSION
from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.probe import command_buffers_work
from ocl_inductor.device.select import list_devices
from ocl_inductor.device.zero_copy import zero_copy_test
from ocl_inductor.observe.diagnosis.finding import Finding
from ocl_inductor.support import child_process

_SECONDS = 120
_COUNT = 1024
_UPDATE = "Update the driver; OCL_INDUCTOR_DEVICE chooses another device until then."


class Absent(Exception):
    """Raised by a test of something that the device does not claim to have."""


def run_in_child(number: int, device: Device) -> Iterator[Finding]:
    """The findings for the device with this place in ``list_devices``, from another process."""
    step = f"self-test of {device.short_name}"
    module = "ocl_inductor.observe.diagnosis.self_test"
    done = child_process.run(child_process.command(module, str(number)), _SECONDS)
    done_tests = 0
    for line in done.stdout.splitlines():
        try:
            finding = Finding(**json.loads(line))
        except (ValueError, TypeError):
            continue  # drivers print to standard output too
        done_tests += 1
        yield finding
    names = list(TESTS)
    if done_tests < len(names):
        late = f"did not end in {_SECONDS} s"
        how = late if done.code is None else f"ended the process ({done.how})"
        yield Finding(step, "problem", f"{names[done_tests]}: the driver {how}", _UPDATE)


def self_test(device: Device) -> Iterator[Finding]:
    """One finding for each of ``TESTS``, in order."""
    step = f"self-test of {device.short_name}"
    for name, (test, needed) in TESTS.items():
        try:
            said = test(device)
        except Absent as absent:
            yield Finding(
                step, "note", f"{name}: not offered{f' ({absent})' if str(absent) else ''}"
            )
        except Exception as error:  # whatever a driver does wrong is the finding
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            said = f"{name}: {first}"
            if needed:
                yield Finding(step, "problem", said, _UPDATE)
            else:
                yield Finding(step, "warning", said, _ADVICE[name])
        else:
            yield Finding(step, "ok", f"{name}{f': {said}' if said else ''}")


def _run(
    device: Device,
    body: str,
    out: np.ndarray,
    *inputs: np.ndarray,
    before: str = "",
    local: int = 1,
) -> None:
    """Run ``__kernel void test(body)`` on the output and the inputs, ``_COUNT`` work-items."""
    cl = load_pyopencl()
    options = list(device.info.build_options)
    source = f"{before}__kernel void test({body}"
    program = cl.Program(device.context, source).build(options=options, cache_dir=False)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(device.context, flags, hostbuf=x) for x in (out, *inputs)]
    kernel = cl.Kernel(program, "test")
    kernel.set_args(*buffers)
    cl.enqueue_nd_range_kernel(device.queue, kernel, (_COUNT,), (local,))
    cl.enqueue_copy(device.queue, out, buffers[0])
    device.queue.finish()


def _pragmas(*extensions: str) -> str:
    return "".join(f"#pragma OPENCL EXTENSION {name} : enable\n" for name in extensions)


def _expect(found: np.ndarray, expected: Any, what: str = "a wrong result") -> None:
    if not np.array_equal(found, np.broadcast_to(expected, found.shape)):
        raise RuntimeError(what)


def _build(device: Device) -> str:
    cl = load_pyopencl()
    source = "__kernel void test(__global float *a) { a[0] = 1.0f; }"
    options = list(device.info.build_options)
    program = cl.Program(device.context, source).build(options=options, cache_dir=False)
    binary = program.get_info(cl.program_info.BINARIES)[0]
    return "" if binary else "but no binary can be had, so that nothing can be cached"


def _execute(device: Device) -> str:
    a, b = np.arange(_COUNT, dtype=np.float32), np.full(_COUNT, 0.5, np.float32)
    out = np.zeros_like(a)
    body = (
        "__global float *out, __global const float *a, __global const float *b) "
        "{ size_t i = get_global_id(0); out[i] = a[i] * b[i] + 1.0f; }"
    )
    _run(device, body, out, a, b)
    _expect(out, a * b + 1)
    return ""


def _zero_copy(device: Device) -> str:
    if not device.info.unified_memory:
        raise Absent("the device has memory of its own; tensors are copied")
    if not zero_copy_test(device.context, device.queue):
        raise RuntimeError("the driver works on a copy of host memory")
    return "kernels work in place on tensors"


def _atomics(device: Device) -> str:
    out = np.zeros(_COUNT, np.int32)
    _run(device, "__global int *out) { atomic_add(out, 3); atomic_max(out + 1, 7); }", out)
    _expect(out[:3], [3 * _COUNT, 7, 0], "updates were lost")
    return ""


def _barriers(device: Device) -> str:
    group = min(64, device.info.max_work_group_size)
    out = np.zeros(_COUNT, np.int32)
    body = (
        "__global int *out) { __local int shared[64]; int l = get_local_id(0); "
        "int n = get_local_size(0); shared[l] = l; barrier(CLK_LOCAL_MEM_FENCE); "
        "out[get_global_id(0)] = shared[n - 1 - l]; }"
    )
    _run(device, body, out, local=group)
    _expect(out, np.tile(np.arange(group)[::-1], _COUNT // group))
    return f"work-groups of {group}"


def _sub_groups(device: Device) -> str:
    names = {"cl_khr_subgroups", "cl_intel_subgroups"} & device.info.extensions
    if not names:
        raise Absent
    out = np.zeros(_COUNT, np.int32)
    body = (
        "__global int *out) { int sum = sub_group_reduce_add(1); "
        "out[get_global_id(0)] = sum == (int)get_sub_group_size() ? sum : -1; }"
    )
    group = min(64, device.info.max_work_group_size)
    _run(device, body, out, before=_pragmas(*sorted(names)), local=group)
    if (out < 1).any():
        raise RuntimeError("a wrong sum over a sub-group")
    return f"of {' or '.join(map(str, sorted(set(out.tolist()))))}"


def _fp16(device: Device) -> str:
    if not device.info.fp16:
        raise Absent("float16 tensors are computed in float32")
    a = np.linspace(-4, 4, _COUNT).astype(np.float16)
    out = np.zeros_like(a)
    body = (
        "__global half *out, __global const half *a) "
        "{ size_t i = get_global_id(0); out[i] = a[i] + a[i]; }"
    )
    _run(device, body, out, a, before=_pragmas("cl_khr_fp16"))
    _expect(out, a + a)
    return ""


def _fp64(device: Device) -> str:
    if not device.info.fp64:
        raise Absent("float64 tensors stay in ATen")
    a = 1 + np.arange(_COUNT) * 2.0**-50
    out = np.zeros_like(a)
    body = (
        "__global double *out, __global const double *a) "
        "{ size_t i = get_global_id(0); out[i] = a[i] + 1.0; }"
    )
    _run(device, body, out, a)
    _expect(out, a + 1)
    return ""


def _unaligned(device: Device) -> str:
    width = device.info.vector_width
    if width == 1:
        raise Absent("the code reads single elements")
    a = np.arange(_COUNT + width + 1, dtype=np.float32)
    out = np.zeros(_COUNT, np.float32)
    body = (
        "__global float *out, __global const float *a) { size_t i = get_global_id(0); "
        f"float{width} x = *(__global const any_address*)(a + i + 1); "
        f"out[i] = x.s0 + x.s{width - 1:x}; }}"
    )
    typedef = f"typedef float{width} any_address __attribute__((aligned(4)));\n"
    _run(device, body, out, a, before=typedef)
    first = np.arange(1, _COUNT + 1)
    _expect(out, 2 * first + width - 1)
    return f"vectors of {width} at any element's address"


def _command_buffers(device: Device) -> str:
    if EXTENSION not in device.info.extensions:
        raise Absent(f"no {EXTENSION}")
    if not command_buffers_work(device.info.key, device.names):
        raise Absent("the driver fails the test of them")
    return 'mode="reduce-overhead" uses them where they are faster'


def _calling_thread(device: Device) -> str:
    inline = device.calling_thread
    if inline is None:
        raise Absent("the driver does not offer it, or fails the test of it")
    a = np.arange(_COUNT, dtype=np.float32)
    out = np.zeros_like(a)
    body = (
        "__global float *out, __global const float *a) "
        "{ size_t i = get_global_id(0); out[i] = a[i] + a[i]; }"
    )
    _run(inline, body, out, a)
    _expect(out, a + a)
    return "small plans run in it"


#: What is tested, in order, and whether compiled graphs cannot do without it.
TESTS: dict[str, tuple[Callable[[Device], str], bool]] = {
    "build": (_build, True),
    "run": (_execute, True),
    "zero copy": (_zero_copy, False),
    "atomics": (_atomics, True),
    "local memory and barriers": (_barriers, True),
    "sub-groups": (_sub_groups, False),
    "float16": (_fp16, False),
    "float64": (_fp64, False),
    "unaligned pointers": (_unaligned, True),
    "command buffers": (_command_buffers, False),
    "calling thread": (_calling_thread, False),
}

_ADVICE = {
    "zero copy": "Tensors are copied to the device and back; nothing to do.",
    "sub-groups": "They are not used; nothing to do.",
    "float16": "Update the driver, or keep such tensors in float32.",
    "float64": "Update the driver, or keep such tensors in float32.",
    "calling thread": "Update the driver, or set OCL_INDUCTOR_CALLING_THREAD=0.",
}


def main() -> None:
    """Test the device with this place in the list; one line of JSON a finding."""
    for finding in self_test(list_devices()[int(sys.argv[1])]):
        print(json.dumps(asdict(finding)), flush=True)


if __name__ == "__main__":
    main()
