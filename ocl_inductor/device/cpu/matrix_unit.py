"""The matrix unit of x86 CPUs (AMX): whether this process may use it, and a driver compiles for it.

OpenCL C has no builtins for it, but the compilers of CPU drivers accept inline assembly. Linux
grants the registers (8 KiB a thread) only to processes that request them.

Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 1, chapter 18;
Linux, Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import platform
import sys
from functools import cache

import numpy as np

from ocl_inductor.device.cpu.flags import cpu_flags
from ocl_inductor.device.driver.handles import ClContext, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.log import logger
from ocl_inductor.patches.process import amx_permission
from ocl_inductor.patches.switch import enabled

_log = logger(__name__)
_FLAGS = {"amx_tile", "amx_bf16", "amx_int8", "avx512f"}
#: Rows of a tile, and pairs of bfloat16 in one of its rows.
_ROWS, _PAIRS = 16, 16

_SOURCE = """
typedef struct {
    uchar palette, start_row, reserved[14]; ushort row_bytes[16]; uchar rows[16];
} __attribute__((packed, aligned(64))) tile_shapes_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void probe(__global const ushort *a, __global const ushort *b, __global float *c)
{
    tile_shapes_t shapes = {1, 0, {0}, {64, 64, 64}, {16, 16, 16}};
    const long line = 64;
    __asm__ volatile("ldtilecfg %0" :: "m"(shapes) : "memory");
    __asm__ volatile("tilezero %%tmm0\\n\\t"
                     "tileloadd (%0,%3,1), %%tmm1\\n\\t"
                     "tileloadd (%1,%3,1), %%tmm2\\n\\t"
                     "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\\n\\t"
                     "tilestored %%tmm0, (%2,%3,1)\\n\\t"
                     "tilerelease"
                     :: "r"(a), "r"(b), "r"(c), "r"(line) : "memory");
}
"""


@cache
def permitted() -> bool:
    """Whether the CPU has the unit and the system lets this process use it; requests permission.

    Forked children inherit the permission.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    if not enabled("amx_permission"):
        return False
    try:
        if not cpu_flags() >= _FLAGS:
            return False
        granted = amx_permission.request()
    except (OSError, AttributeError) as error:
        _log.info("no matrix unit: %s", error)
        return False
    if not granted:
        _log.info("no matrix unit: the system refuses its registers to this process")
    return granted


def amx_test(context: ClContext, queue: ClQueue) -> bool:
    """Whether a kernel multiplies two tiles correctly. Raises the driver's compile error."""
    cl = load_pyopencl()
    random = np.random.default_rng(0)
    # Integers, whose float32 form ends in 16 zeros: bfloat16 is the other half.
    a, b = random.integers(-9, 9, (2, _ROWS, 2 * _PAIRS)).astype(np.float32)
    columns = b.T.reshape(_PAIRS, 2, _ROWS).swapaxes(1, 2)  # pairs of rows, side by side
    flags, operands = cl.mem_flags, []
    for x in (a, columns):
        upper = (np.ascontiguousarray(x).view(np.uint32) >> 16).astype(np.uint16)
        operands.append(cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=upper))
    result = np.empty((_ROWS, _ROWS), np.float32)
    target = cl.Buffer(context, flags.READ_WRITE, result.nbytes)
    program = cl.Program(context, _SOURCE).build(cache_dir=False)
    kernel = cl.Kernel(program, "probe")
    kernel.set_args(*operands, target)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    cl.enqueue_copy(queue, result, target)
    queue.finish()
    return bool((result == a @ b.T).all())
