"""Whether a driver works in place on host memory that USE_HOST_PTR names.

The standard lets a driver keep a copy and demands map and unmap around host access. Zero copy over
a tensor's storage needs more: any 4-byte offset, host writes seen by the next kernel, kernel writes
seen by the host after ``finish``. That is implementation behaviour, hence tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

_SOURCE = "__kernel void probe(__global float *a) { a[get_global_id(0)] += 1.0f; }"
_COUNT = 1024


def zero_copy_test(context: Any, queue: Any) -> bool:
    """Run the test now: whether the kernel's writes and the host's reach each other in place."""
    cl = load_pyopencl()
    host = np.zeros(_COUNT + 1, np.float32)[1:]  # 4 bytes off the allocation's start
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    buffer = cl.Buffer(context, flags, hostbuf=host)
    program = cl.Program(context, _SOURCE).build(cache_dir=False)
    kernel = cl.Kernel(program, "probe")
    kernel.set_args(buffer)
    for start in (1.0, 5.0):  # the second round sees a stale copy, if there is one
        host[:] = start
        cl.enqueue_nd_range_kernel(queue, kernel, (_COUNT,), None)
        queue.finish()
        if not bool((host == start + 1.0).all()):
            return False
    return True
