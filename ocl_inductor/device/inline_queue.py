"""Kernels in the thread that launches them, instead of a driver's worker threads.

A CPU driver dispatches each kernel to its worker threads and wakes the caller when they finish: 10
µs for a kernel that computes for two on Intel's runtime, 50 to 250 on PoCL, where a Linear(64, 64)
in eager takes 8. A plan whose kernels are that small is faster on one core without waiting. Intel's
runtime has queues for that (extension cl_intel_exec_by_local_thread), PoCL a device
(``InlineDevice`` in quirks.py).
"""

from __future__ import annotations

from ocl_inductor.device.driver.handles import ClContext, ClDevice, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

EXTENSION = "cl_intel_exec_by_local_thread"
#: CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL: a launch returns when the kernel has run.
_QUEUE_PROPERTY = 1 << 31


def calling_queue(device: ClDevice, context: ClContext) -> ClQueue:
    """An in-order queue of a pyopencl Device that runs kernels in the thread that enqueues them or
    waits for them, provided the device supports that.
    """
    has_queues = EXTENSION in device.extensions.split()
    return load_pyopencl().CommandQueue(
        context, device, properties=_QUEUE_PROPERTY if has_queues else 0
    )
