"""Dot products of bfloat16 pairs on x86 CPUs (AVX512-BF16): whether kernels can use them.

OpenCL C has no builtin for the instruction, but the compilers of CPU drivers accept inline
assembly. A front end that does not know the processor's registers rejects a clobber list: the
instruction is in a function that is not inlined, whose callers keep no vector in a register
(templates/parts/bf16_tile.cl.jinja). The test checks that, too.

Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2, VDPBF16PS.
"""

from __future__ import annotations

import platform

import numpy as np

from ocl_inductor.device.cpu.flags import cpu_flags
from ocl_inductor.device.driver.handles import ClContext, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

_FLAGS = {"avx512f", "avx512bw", "avx512_bf16"}
_REGISTERS = range(32)
_LANES = 16
#: Vectors that are live across the product in the test's kernel.
_KEPT = range(24)

_SOURCE = f"""
#ifdef __SSE2__ // the front end knows the registers
#define ALL_VECTORS , {", ".join(f'"zmm{r}"' for r in _REGISTERS)}
#else
#define ALL_VECTORS
#endif
__attribute__((noinline))
void product(__global const uint *a, __global const uint *b, __global float *c)
{{
    __asm__ volatile(
        {" ".join(f'"vmovups (%[b]), %%zmm{r}; "' for r in _REGISTERS[2:])}
        "vpxord %%zmm0, %%zmm0, %%zmm0; vmovups (%[b]), %%zmm1; "
        "vdpbf16ps (%[a])%{{1to16%}}, %%zmm1, %%zmm0; vmovups %%zmm0, (%[c])"
        :: [a] "r"(a), [b] "r"(b), [c] "r"(c) : "memory" ALL_VECTORS);
}}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void probe(__global const uint *a, __global const uint *b, __global float *c,
           __global float16 *kept)
{{
    {" ".join(f"const float16 x{v} = kept[{v}], y{v} = x{v} * x{v};" for v in _KEPT)}
    product(a, b, c);
    {" ".join(f"kept[{v}] = y{v} + x{v};" for v in _KEPT)}
}}
"""


def has_bf16_dot() -> bool:
    """Whether the CPU has the instruction."""
    try:
        return platform.machine() in ("x86_64", "AMD64") and cpu_flags() >= _FLAGS
    except OSError:  # the system does not tell
        return False


def bf16_dot_test(context: ClContext, queue: ClQueue) -> bool:
    """Whether a kernel computes a dot product correctly, and finds its own vectors unchanged.

    Raises the driver's error where it cannot compile the kernel.
    """
    cl = load_pyopencl()
    random = np.random.default_rng(0)
    # Integers, whose float32 form ends in 16 zeros: bfloat16 is the other half.
    a = random.integers(-9, 9, 2).astype(np.float32)
    b = random.integers(-9, 9, (_LANES, 2)).astype(np.float32)
    kept = random.integers(-9, 9, (len(_KEPT), _LANES)).astype(np.float32)
    flags = cl.mem_flags
    operands = [
        cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=(x.view(np.uint32) >> 16).astype(np.uint16))
        for x in (a, b)
    ]
    result, after = np.empty(_LANES, np.float32), np.empty_like(kept)
    target = cl.Buffer(context, flags.READ_WRITE, result.nbytes)
    vectors = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=kept)
    kernel = cl.Kernel(cl.Program(context, _SOURCE).build(cache_dir=False), "probe")
    kernel.set_args(*operands, target, vectors)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    cl.enqueue_copy(queue, result, target)
    cl.enqueue_copy(queue, after, vectors)
    queue.finish()
    return bool((result == b @ a).all() and (after == kept * kept + kept).all())
