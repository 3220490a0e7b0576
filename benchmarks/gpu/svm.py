"""``python -m benchmarks.gpu.svm``: what shared virtual memory costs on a card, against buffers.

An address that is a tensor's ``data_ptr`` and a kernel's argument alike would spare sub-buffers:
whether a driver gives it at the speed of buffers is what is measured here.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.gpu.card import guarded
from benchmarks.gpu.line import line
from benchmarks.gpu.setup import Where, arguments, where
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

_SOURCE = """
__kernel void copy(__global const float4 *a, __global float4 *b) {
    size_t i = get_global_id(0);
    b[i] = a[i] + 1.0f;
}
__kernel void small(__global const float *a, __global float *b) {
    b[get_global_id(0)] = a[get_global_id(0)];
}
"""
_BYTES = 256 << 20


def _median(call: Callable[[], float], repeats: int = 7) -> float:
    return float(np.median([call() for _ in range(repeats)]))


def kernels(place: Where) -> None:
    """Kernels, transfers and launches with each kind of argument, and that they are one memory."""
    cl, device = load_pyopencl(), place.device
    context, queue = device.context, device.queue
    nbytes = _BYTES >> (8 if place.small else 0)
    flags, shared = cl.mem_flags, cl.svm_mem_flags.READ_WRITE
    svm = [cl.SVMAllocation(context, nbytes, 0, shared, queue) for _ in range(2)]
    views = [_view(x.svm_ptr, nbytes) for x in svm]
    over = [cl.Buffer(context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=v) for v in views]
    plain = [cl.Buffer(context, flags.READ_WRITE, nbytes) for _ in range(2)]
    capabilities = int(device.cl_device.svm_capabilities)
    line("svm", what="addresses", first=hex(svm[0].svm_ptr), capabilities=capabilities)
    host = np.random.rand(nbytes // 4).astype(np.float32)
    arguments = {"buffers": plain, "svm": svm, "buffers over svm": over}
    for name, (a, b) in arguments.items():
        line("svm", what=name, **_Case(cl, device, a, b, host).measure())
    cl.enqueue_copy(queue, svm[0], host)
    kernel = cl.Program(context, _SOURCE).build().copy
    kernel.set_args(*over)
    cl.enqueue_nd_range_kernel(queue, kernel, (nbytes // 16,), (256,))
    back = np.empty_like(host)
    cl.enqueue_copy(queue, back, svm[1])
    queue.finish()
    line("svm", what="seen through both", wrong=float(np.abs(back - host - 1).max()))


class _Case:
    """A kernel from ``a`` to ``b``, which hold as many bytes as ``host``."""

    def __init__(self, cl: Any, device: Any, a: Any, b: Any, host: Any) -> None:
        self.cl, self.queue, self.a, self.b, self.host = cl, device.queue, a, b, host
        program = cl.Program(device.context, _SOURCE).build()
        self.kernel, self.small = cl.Kernel(program, "copy"), cl.Kernel(program, "small")
        for kernel in (self.kernel, self.small):
            kernel.set_args(a, b)
        profiled = cl.command_queue_properties.PROFILING_ENABLE
        self.profiling = cl.CommandQueue(device.context, properties=profiled)
        self.back = np.empty_like(host)

    def measure(self) -> dict[str, float]:
        self.fill()
        first = self.kernel_ms()
        ms = _median(self.kernel_ms)
        self.fetch()
        wrong = float(np.abs(self.back - self.host - 1).max())
        nbytes = self.host.nbytes
        up, down = _median(_clock(self.fill), 3), _median(_clock(self.fetch), 3)
        return {
            "wrong": wrong,
            "gb_s": 2 * nbytes / ms / 1e6,
            "first_ms": first,
            "up_gb_s": nbytes / up / 1e6,
            "down_gb_s": nbytes / down / 1e6,
            "launch_us": _median(_clock(self.launches), 3),
        }

    def fill(self) -> None:
        self.cl.enqueue_copy(self.queue, self.a, self.host)
        self.queue.finish()

    def fetch(self) -> None:
        self.cl.enqueue_copy(self.queue, self.back, self.b)
        self.queue.finish()

    def kernel_ms(self) -> float:
        size = (self.host.nbytes // 16,)
        event = self.cl.enqueue_nd_range_kernel(self.profiling, self.kernel, size, (256,))
        event.wait()
        return float(event.profile.end - event.profile.start) * 1e-6

    def launches(self) -> None:
        """A thousand, each with an argument that was set anew."""
        for _ in range(1000):
            self.small.set_arg(0, self.a)
            self.cl.enqueue_nd_range_kernel(self.queue, self.small, (256,), (64,))
        self.queue.finish()


def _clock(call: Callable[[], None]) -> Callable[[], float]:
    def timed() -> float:
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3

    return timed


def _view(pointer: int, nbytes: int) -> Any:
    return (ctypes.c_char * nbytes).from_address(pointer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    arguments(parser)
    place = where(parser.parse_args())
    guarded("svm", lambda: kernels(place))


if __name__ == "__main__":
    main()
