"""Times one kernel by itself on synthetic inputs, to compare with the device's roof."""

from __future__ import annotations

import re
import statistics
import time
from dataclasses import dataclass
from functools import partial

import numpy as np

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.plan.launch_example import LaunchExample
from ocl_inductor.runtime.event_times import timed_ns

_POINTER = re.compile(r"__global\s+(const\s+)?\w+\s*\*\s*restrict")
_MIN_RUNS, _MAX_RUNS = 5, 2000
_WARM_UP = 2
#: OpenCL has no empty buffers.
_MIN_BYTES = 64


@dataclass(frozen=True, slots=True)
class KernelTiming:
    """Times of single launches by the device's clock, in seconds."""

    runs: int
    median: float
    best: float

    def per_second(self, amount: float) -> float:
        """``amount`` of one launch as a rate, at the median time."""
        return amount / self.median


def bench_kernel(
    program: object, name: str, source: str, example: LaunchExample, device: Device, seconds: float
) -> KernelTiming:
    """Launch the kernel for about ``seconds``, at least a few times.

    Floating-point inputs are uniform in [0, 1); integers, which may be indices, are 0. What the
    kernel wrote is replaced before each launch, outside the time that is taken.

    Raises:
        pyopencl.Error: the device cannot run it, or has not enough memory.
    """
    cl = load_pyopencl()
    queue = cl.CommandQueue(device.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    random = np.random.default_rng(0)
    hosts = [made_up(kind, elements, random) for kind, elements in example.buffers]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(device.context, flags, hostbuf=h) for h in hosts]
    kernel = cl.Kernel(program, name)
    arguments = [*buffers, *map(np.int64, example.scalars), *map(np.int32, example.literals)]
    for position, argument in enumerate(arguments):
        kernel.set_arg(position, argument)
    written = _written(source, name, len(buffers))
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < _MAX_RUNS:
        for n in written:
            cl.enqueue_copy(queue, buffers[n], hosts[n], is_blocking=False)
        queue.finish()
        sizes = example.global_size, example.local_size
        times.append(timed_ns(partial(cl.enqueue_nd_range_kernel, queue, kernel, *sizes)) * 1e-9)
        if len(times) >= _MIN_RUNS + _WARM_UP and time.perf_counter() > end:
            break
    times = times[_WARM_UP:]
    return KernelTiming(len(times), statistics.median(times), min(times))


def made_up(kind: str, elements: int, random: np.random.Generator) -> np.ndarray:
    """``elements`` synthetic values of a torch dtype, as stored in memory; never an empty array."""
    itemsize = {"bool": 1, "bfloat16": 2}.get(kind) or np.dtype(kind).itemsize
    elements = max(elements, -(-_MIN_BYTES // itemsize))
    if kind == "bool":
        return random.integers(0, 2, elements, np.uint8)
    if kind == "bfloat16":
        return (random.random(elements, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind == "float16":
        return random.random(elements, np.float32).astype(np.float16)
    if np.issubdtype(np.dtype(kind), np.floating):
        return random.random(elements, np.float32).astype(kind, copy=False)
    return np.zeros(elements, kind)


def _written(source: str, name: str, count: int) -> list[int]:
    """Positions of the buffers that the kernel may write: those without ``const``."""
    signature = source[max(0, source.find(f"{name}(")) :].split("{", 1)[0]
    pointers = [bool(m[1]) for m in _POINTER.finditer(signature)]
    if len(pointers) != count:
        return list(range(count))
    return [n for n, const in enumerate(pointers) if not const]
