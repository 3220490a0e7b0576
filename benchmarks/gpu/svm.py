"""``python -m benchmarks.gpu.svm``: what shared virtual memory costs on a card, against buffers.

An address that is a tensor's ``data_ptr`` and a kernel's argument alike would spare sub-buffers:
whether a driver gives it at the speed of buffers is what is measured here.
"""

from __future__ import annotations

import argparse
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
__kernel void small(__global const float *a, __global float *b) { b[get_global_id(0)] = a[get_global_id(0)]; }
"""
_BYTES = 256 << 20


def _median(call: Callable[[], float], repeats: int = 7) -> float:
    return float(np.median([call() for _ in range(repeats)]))


def _set(cl: Any, kernel: Any, index: int, what: Any) -> None:
    kernel.set_arg(index, what)


def kernels(place: Where) -> None:
    cl, device = load_pyopencl(), place.device
    context, queue = device.context, device.queue
    profiling = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    program = cl.Program(context, _SOURCE).build()
    nbytes = _BYTES >> (8 if place.small else 0)
    flags = cl.mem_flags.READ_WRITE
    svm = [cl.SVMAllocation(context, nbytes, 0, cl.svm_mem_flags.READ_WRITE, queue) for _ in range(2)]
    over = [cl.Buffer(context, flags | cl.mem_flags.USE_HOST_PTR, hostbuf=_view(x.svm_ptr, nbytes)) for x in svm]
    plain = [cl.Buffer(context, flags, nbytes) for _ in range(2)]
    line("svm", what="addresses", first=hex(svm[0].svm_ptr), second=hex(svm[1].svm_ptr),
         capabilities=int(device.cl_device.svm_capabilities))  # fmt: skip
    host = np.random.rand(nbytes // 4).astype(np.float32)
    back = np.empty_like(host)
    for name, (a, b) in {"buffers": plain, "svm": svm, "buffers over svm": over}.items():
        def fill(a: Any = a) -> None:
            if name == "svm":
                cl.enqueue_copy(queue, a, host)
            else:
                cl.enqueue_copy(queue, a, host)
            queue.finish()

        def fetch(b: Any = b) -> None:
            if name == "svm":
                cl.enqueue_copy(queue, back, b)
            else:
                cl.enqueue_copy(queue, back, b)
            queue.finish()

        kernel, small = cl.Kernel(program, "copy"), cl.Kernel(program, "small")
        for k in (kernel, small):
            k.set_arg(0, a)
            k.set_arg(1, b)

        def once(kernel: Any = kernel) -> float:
            event = cl.enqueue_nd_range_kernel(profiling, kernel, (nbytes // 16,), (256,))
            event.wait()
            return (event.profile.end - event.profile.start) * 1e-6

        fill()
        first = once()
        ms = _median(once)
        fetch()
        wrong = float(np.abs(back - host - 1).max())

        def clock(call: Callable[[], None]) -> float:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e3

        after_fill = (fill(), once())[1]
        up, down = _median(lambda: clock(fill), 3), _median(lambda: clock(fetch), 3)
        again = once()

        def launches(small: Any = small, a: Any = a) -> float:
            start = time.perf_counter()
            for _ in range(1000):
                small.set_arg(0, a)
                cl.enqueue_nd_range_kernel(queue, small, (256,), (64,))
            queue.finish()
            return (time.perf_counter() - start) * 1e3

        line("svm", what=name, wrong=wrong, gb_s=2 * nbytes / ms / 1e6, first_ms=first, ms=ms,
             after_fill_ms=after_fill, after_fetch_ms=again, up_gb_s=nbytes / up / 1e6,
             down_gb_s=nbytes / down / 1e6, launch_us=_median(launches, 3))  # fmt: skip
    # The buffer over the memory and the memory itself are one.
    cl.enqueue_copy(queue, svm[0], host)
    kernel = cl.Kernel(program, "copy")
    kernel.set_arg(0, over[0])
    kernel.set_arg(1, over[1])
    cl.enqueue_nd_range_kernel(queue, kernel, (nbytes // 16,), (256,))
    cl.enqueue_copy(queue, back, svm[1])
    queue.finish()
    line("svm", what="seen through both", wrong=float(np.abs(back - host - 1).max()))


def _view(pointer: int, nbytes: int) -> Any:
    import ctypes

    return (ctypes.c_char * nbytes).from_address(pointer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    arguments(parser)
    place = where(parser.parse_args())
    guarded("svm", lambda: kernels(place))


if __name__ == "__main__":
    main()
