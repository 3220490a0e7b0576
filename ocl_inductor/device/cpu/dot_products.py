"""Instructions of x86 that multiply vectors of words, each a few narrow numbers: whether kernels
can use them.

A lane of the result is c + a0 * b0 + a1 * b1, of the two bfloat16 in a 32-bit word of either
operand (AVX512-BF16), or the same of four bytes, of which those of one operand have no sign
(AVX512-VNNI). OpenCL C has no builtin for them, but the compilers of CPU drivers accept inline
assembly. A front end that does not know the processor's registers rejects a clobber list: the
instruction is in a function that is not inlined, whose callers keep no vector in a register
(templates/parts/dot_tile.cl.jinja). The test checks that, too.

Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2, VDPBF16PS and VPDPBUSD.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ocl_inductor.device.cpu.flags import cpu_flags
from ocl_inductor.device.driver.handles import ClContext, ClQueue
from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

#: The instructions, by the fact of a device that says whether it has one.
DotName: TypeAlias = Literal["bf16_dot", "int8_dot"]


@dataclass(frozen=True, slots=True)
class _Instruction:
    """``flags``: of a CPU that has it. ``first``, ``second``: the dtypes of the numbers in its
    operands as the test has them; ``sums``: that of its result."""

    mnemonic: str
    flags: frozenset[str]
    first: type[np.generic]
    second: type[np.generic]
    sums: type[np.generic]


_INSTRUCTIONS: Mapping[DotName, _Instruction] = {
    "bf16_dot": _Instruction(
        "vdpbf16ps",
        frozenset({"avx512f", "avx512bw", "avx512_bf16"}),
        np.float32,
        np.float32,
        np.float32,
    ),
    "int8_dot": _Instruction(
        "vpdpbusd",
        frozenset({"avx512f", "avx512bw", "avx512_vnni"}),
        np.uint8,
        np.int8,
        np.int32,
    ),
}
_REGISTERS = range(32)
_LANES = 16
#: Vectors that are live across the product in the test's kernel.
_KEPT = range(24)


def _source(mnemonic: str) -> str:
    return f"""
#ifdef __SSE2__ // the front end knows the registers
#define ALL_VECTORS , {", ".join(f'"zmm{r}"' for r in _REGISTERS)}
#else
#define ALL_VECTORS
#endif
__attribute__((noinline))
void product(__global const uint *a, __global const uint *b, __global uint *c)
{{
    __asm__ volatile(
        {" ".join(f'"vmovups (%[b]), %%zmm{r}; "' for r in _REGISTERS[2:])}
        "vpxord %%zmm0, %%zmm0, %%zmm0; vmovups (%[a]), %%zmm1; "
        "{mnemonic} (%[b])%{{1to16%}}, %%zmm1, %%zmm0; vmovups %%zmm0, (%[c])"
        :: [a] "r"(a), [b] "r"(b), [c] "r"(c) : "memory" ALL_VECTORS);
}}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void probe(__global const uint *a, __global const uint *b, __global uint *c,
           __global float16 *kept)
{{
    {" ".join(f"const float16 x{v} = kept[{v}], y{v} = x{v} * x{v};" for v in _KEPT)}
    product(a, b, c);
    {" ".join(f"kept[{v}] = y{v} + x{v};" for v in _KEPT)}
}}
"""


def has_dot(name: DotName) -> bool:
    """Whether the CPU has the instruction."""
    try:
        return (
            platform.machine() in ("x86_64", "AMD64") and cpu_flags() >= _INSTRUCTIONS[name].flags
        )
    except OSError:  # the system does not tell
        return False


def dot_test(name: DotName, context: ClContext, queue: ClQueue) -> bool:
    """Whether a kernel computes a dot product correctly, and finds its own vectors unchanged.

    Raises the driver's error where it cannot compile the kernel.
    """
    cl = load_pyopencl()
    random = np.random.default_rng(0)
    instruction = _INSTRUCTIONS[name]
    terms = 2 if name == "bf16_dot" else 4
    a, b = (
        _numbers(random, (n, terms), dtype)
        for n, dtype in ((_LANES, instruction.first), (_LANES, instruction.second))
    )
    kept = random.integers(-9, 9, (len(_KEPT), _LANES)).astype(np.float32)
    flags = cl.mem_flags
    operands = [cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=_as_stored(x)) for x in (a, b)]
    result, after = np.empty(_LANES, instruction.sums), np.empty_like(kept)
    target = cl.Buffer(context, flags.READ_WRITE, result.nbytes)
    vectors = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=kept)
    source = _source(instruction.mnemonic)
    kernel = cl.Kernel(cl.Program(context, source).build(cache_dir=False), "probe")
    kernel.set_args(*operands, target, vectors)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    cl.enqueue_copy(queue, result, target)
    cl.enqueue_copy(queue, after, vectors)
    queue.finish()
    exact = a.astype(np.int64) @ b[0].astype(np.int64)
    return bool((result == exact).all() and (after == kept * kept + kept).all())


def _numbers(
    random: np.random.Generator, size: tuple[int, int], dtype: type[np.generic]
) -> np.ndarray:
    """Any of a byte; small integers as floats, whose float32 form ends in 16 zeros."""
    if issubclass(dtype, np.integer):
        bounds = np.iinfo(dtype)
        return random.integers(bounds.min, bounds.max, size, dtype, endpoint=True)
    return random.integers(-9, 9, size).astype(dtype)


def _as_stored(numbers: np.ndarray) -> np.ndarray:
    """Bytes as they are; of a float32 its bfloat16, the upper half."""
    if numbers.dtype == np.float32:
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(numbers)
