"""Whether a driver works in place on host memory given by USE_HOST_PTR.

The standard lets a driver keep a copy and demands map and unmap around host access. Zero copy over
a tensor's storage needs more: any 4-byte offset, host writes visible to the next kernel, kernel
writes visible to the host after ``finish``. That depends on the implementation, hence the test.
"""

from __future__ import annotations

import numpy as np

from ocl_inductor.device.driver.handles import ClContext, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

_SOURCE = "__kernel void probe(__global float *a) { a[get_global_id(0)] += 1.0f; }"
_COUNT = 1024


def zero_copy_test(context: ClContext, queue: ClQueue) -> bool:
    """Run the test now: whether the kernel's and the host's writes are mutually visible."""
    cl = load_pyopencl()
    host = np.zeros(_COUNT + 1, np.float32)[1:]  # 4 bytes off the allocation's start
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    buffer = cl.Buffer(context, flags, hostbuf=host)
    program = cl.Program(context, _SOURCE).build(cache_dir=False)
    kernel = cl.Kernel(program, "probe")
    kernel.set_args(buffer)
    for start in (1.0, 5.0):  # the second iteration detects a stale copy
        host[:] = start
        cl.enqueue_nd_range_kernel(queue, kernel, (_COUNT,), None)
        queue.finish()
        if not bool((host == start + 1.0).all()):
            return False
    return True
