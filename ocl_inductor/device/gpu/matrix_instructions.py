"""Matrix instructions of NVIDIA's GPUs (tensor cores): whether kernels can use them.

OpenCL C has no builtins for them, but NVIDIA's compiler accepts inline PTX. The instructions that
kernels use (mma.cl.jinja) need compute capability 8.0: mma.sync with 16 terms, ldmatrix and
cp.async.

NVIDIA, "Parallel Thread Execution ISA", version 7.0.
"""

from __future__ import annotations

import numpy as np

from ocl_inductor.device.driver.handles import ClContext, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl
from ocl_inductor.device.driver.questions import ask

#: Least capability for the instructions, and the extension by which a driver reports it.
_LEAST_CAPABILITY, _EXTENSION = 8, "cl_nv_device_attribute_query"
_ROWS, _COLUMNS, _TERMS, _WARP = 16, 8, 16, 32

#: A is [16 rows][16 terms], B is [8 columns][16 terms]; in local memory rows of 32 bytes.
_SOURCE = """
__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void probe(__global const ushort *a, __global const ushort *b, __global float *c)
{
    __local uint4 here[48] __attribute__((aligned(128)));
    const int lane = get_local_id(0);
    const uint at = (uint)(size_t)here;
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(at + lane * 16), "l"(a + lane * 8), "r"(16) : "memory");
    // Both halves of the warp bring the same.
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(at + 512 + lane % 16 * 16), "l"(b + lane % 16 * 8), "r"(16) : "memory");
    __asm__ volatile("cp.async.commit_group;" ::: "memory");
    __asm__ volatile("cp.async.wait_group 0;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    uint4 x, y;
    float4 sum = 0;
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                     : "r"(at + lane % 16 * 32 + lane / 16 * 16) : "memory");
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(y.x), "=r"(y.y), "=r"(y.z), "=r"(y.w)
                     : "r"(at + 512 + lane % 8 * 32 + lane / 8 % 2 * 16) : "memory");
    __asm__("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sum.x), "+f"(sum.y), "+f"(sum.z), "+f"(sum.w)
            : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y));
    __global float *to = c + lane / 4 * 8 + lane % 4 * 2;
    to[0] = sum.x;
    to[1] = sum.y;
    to[64] = sum.z;
    to[65] = sum.w;
}
"""


def may_have_mma(device: object, extensions: frozenset[str]) -> bool:
    """Whether a pyopencl device is of a generation that has the instructions."""
    if _EXTENSION not in extensions:
        return False
    return int(ask(device, "compute_capability_major_nv", 0) or 0) >= _LEAST_CAPABILITY


def mma_test(context: ClContext, queue: ClQueue) -> bool:
    """Whether a kernel multiplies two matrices correctly.

    Raises the driver's error where it cannot compile the kernel.
    """
    cl = load_pyopencl()
    random = np.random.default_rng(0)
    # Integers, whose float32 form ends in 16 zeros: bfloat16 is the other half.
    a = random.integers(-9, 9, (_ROWS, _TERMS)).astype(np.float32)
    b = random.integers(-9, 9, (_COLUMNS, _TERMS)).astype(np.float32)
    flags = cl.mem_flags
    operands = [
        cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=(x.view(np.uint32) >> 16).astype(np.uint16))
        for x in (a, b)
    ]
    result = np.full((_ROWS, _COLUMNS), np.nan, np.float32)
    target = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=result)
    kernel = cl.Kernel(cl.Program(context, _SOURCE).build(cache_dir=False), "probe")
    kernel.set_args(*operands, target)
    cl.enqueue_nd_range_kernel(queue, kernel, (_WARP,), (_WARP,))
    cl.enqueue_copy(queue, result, target)
    queue.finish()
    return bool((result == a @ b.T).all())
