"""The prelude of a kernel's source."""

from __future__ import annotations

from ocl_inductor.codegen.printers import conversions
from ocl_inductor.codegen.printers.forms import EmitTarget
from ocl_inductor.codegen.printers.math_library import library_source
from ocl_inductor.codegen.printers.nontemporal import streaming_functions


def prelude(target: EmitTarget, source: str | None = None) -> str:
    """The definitions that a kernel needs: pragmas, unaligned vector types, library functions.

    With ``source`` (the kernels' text) only the functions it calls are included, at every width
    that appears in it; without, the whole library at ``target.width``.
    """
    fp64 = target.device.fp64
    lines = ["#pragma OPENCL FP_CONTRACT ON\n"]
    if fp64 and target.device.opencl_c_version < (1, 2):
        lines.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n")
    streaming = streaming_functions(source or "")
    widths = (2, 3, 4, 8, 16) if source is not None else (target.width,)
    for width in widths:
        typedefs = conversions.unaligned_typedefs(width, fp64)
        if source is None:
            lines.append(typedefs)
            continue
        for line in typedefs.splitlines(keepends=True):
            if line.split()[2] + "*" in source + streaming:
                lines.append(line)
    lines.append(streaming)
    lines.append(library_source(target.device, target.width, source))
    return "".join(lines)
