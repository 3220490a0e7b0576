"""What a kernel needs at file scope beside its own definitions."""

from __future__ import annotations

import functools
import re

from ocl_inductor.codegen.printers import conversions
from ocl_inductor.codegen.printers.math_library import library_functions
from ocl_inductor.codegen.printers.nontemporal import streaming_functions
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.plan.kernel_code import Definition

WIDTHS = (2, 3, 4, 8, 16)
_CONTRACT = Definition("", "#pragma OPENCL FP_CONTRACT ON")
_FP64 = Definition("", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
_WORD = re.compile(r"\w+")


def prelude(device: DeviceInfo, text: str) -> tuple[Definition, ...]:
    """Pragmas, and of the types and functions that kernels may use those that ``text`` names."""
    words = set(_WORD.findall(text))
    streaming = streaming_functions(words)
    words |= {w for d in streaming for w in _WORD.findall(d.text)}
    types = [d for d in unaligned_types(device.fp64) if d.name in words]
    return (*pragmas(device), *types, *streaming, *library_functions(text))


def pragmas(device: DeviceInfo) -> tuple[Definition, ...]:
    named = device.fp64 and device.opencl_c_version < (1, 2)
    return (_CONTRACT, _FP64) if named else (_CONTRACT,)


@functools.cache
def unaligned_types(fp64: bool) -> tuple[Definition, ...]:
    """Vector types of all widths that may be read at any element's address."""
    lines = "".join(conversions.unaligned_typedefs(w, fp64) for w in WIDTHS).splitlines()
    return tuple(Definition(line.split()[2], line) for line in lines)
