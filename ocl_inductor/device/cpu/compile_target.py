"""The target of a CPU driver's compiler, which may differ from what its device reports.

A compiler that does not know the processor, or is told another one, generates narrower code than
the device's native vector width; kernels with wider vectors then spill their registers. So the
compiler is queried: by the macros that it defines for the target, and where it defines none, by the
instructions that it generates for two small kernels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ocl_inductor.device.driver.pyopencl_loader import load_pyopencl

#: Defined for every x86-64 target by a front end that defines any.
_ANY = "__SSE2__"
_MACROS = (_ANY, "__AVX__", "__AVX512F__", "__FMA__")

#: The names of its kernels are the macros that are defined. Without these there are two kernels to
#: examine: the first moves 16 floats, the second multiplies and adds.
_SOURCE = f"""\
#ifdef {_ANY}
{
    "".join(
        f'''#ifdef {macro}
__kernel void is{macro}(__global float *a) {{ a[0] = 1.0f; }}
#endif
'''
        for macro in _MACROS
    )
}#else
__kernel void move(__global const float16 *a, __global float16 *b) {{ b[0] = a[0]; }}
__kernel void multiply_add(__global float16 *a) {{ a[0] = fma(a[0], a[1], a[2]); }}
#endif
"""

#: Moves of 16 single-precision floats between memory and registers: the lanes of one move, and
#: vmovups and vmovaps with operands of 512 and of 256 bits, then both with and without the prefix
#: VEX (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2).
_MOVES = (
    (16, re.compile(rb"\x62[\x61\x71\xe1\xf1]\x7c\x48[\x10\x11\x28\x29]")),
    (8, re.compile(rb"\xc5[\x7c\xfc][\x10\x11\x28\x29]")),
    (4, re.compile(rb"(\xc5[\x78\xf8]|\x0f)[\x10\x11\x28\x29]")),
)
#: vfmadd132ps, 213 and 231 behind VEX's three bytes (map 0F38) or EVEX's four.
_FMA = re.compile(
    rb"(\xc4[\x42\x62\xc2\xe2][\x00-\x7f]|\x62[\x02-\xf2].[\x08-\x6f])[\x98\xa8\xb8]", re.S
)


@dataclass(frozen=True, slots=True)
class CompileTarget:
    """``lanes``: float32 values in one of the target's registers; ``fma``: whether fma() is one
    instruction.
    """

    lanes: int
    fma: bool


def compile_target(context: object) -> CompileTarget | None:
    """The target of the compiler of a pyopencl Context's device; None where it does not tell.

    Raises:
        pyopencl.Error: it cannot compile anything.
    """
    program = load_pyopencl().Program(context, _SOURCE).build(cache_dir=False)
    names = frozenset(program.kernel_names.split(";"))
    if f"is{_ANY}" in names:
        return _of_macros(frozenset(name.removeprefix("is") for name in names))
    (binary,) = program.binaries
    return of_instructions(binary)


def _of_macros(defined: frozenset[str]) -> CompileTarget:
    lanes = 16 if "__AVX512F__" in defined else 8 if "__AVX__" in defined else 4
    return CompileTarget(lanes, "__FMA__" in defined)


def of_instructions(binary: bytes) -> CompileTarget | None:
    """The same from the two kernels' machine code; None where that has no x86 moves of floats."""
    for lanes, move in _MOVES:
        if len(move.findall(binary)) >= 2 * 16 // lanes:
            return CompileTarget(lanes, _FMA.search(binary) is not None)
    return None
