"""Devices whose compiler is not to be had: what the language and the device's limits say.

clang, told to accept what a device has and nothing else, stands for its front end. Private memory
is what is left of arrays when clang has optimised: a device's compiler may do better, and seldom
does.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from pathlib import Path

from gpu_check.compilers.base import Assembly, Compiler, failed, standard
from ocl_inductor.device.described import DescribedTarget

#: What every device of OpenCL 1.1 and later has.
_CORE = (
    "cl_khr_byte_addressable_store", "cl_khr_global_int32_base_atomics",
    "cl_khr_global_int32_extended_atomics", "cl_khr_local_int32_base_atomics",
    "cl_khr_local_int32_extended_atomics",
)  # fmt: skip
_BYTES = {"half": 2, "float": 4, "double": 8, "bfloat": 2, "ptr": 8}


class Portable(Compiler):
    """No code for a device, so that there are no registers and no instructions to read."""

    def needs(self) -> tuple[Path, ...]:
        return (self.clang,)

    @cached_property
    def version(self) -> str:
        return self.clang_version

    def compile(self, source: Path, target: DescribedTarget, folder: Path) -> Assembly:
        out = folder / "kernel.ll"
        has = [*_CORE, *["cl_khr_fp16"] * target.fp16, *["cl_khr_fp64"] * target.fp64]
        done = self.run(
            self.clang, "-x", "cl", standard(target), "-target", "spir64", "-Xclang",
            "-cl-ext=" + ",".join(["-all", *(f"+{x}" for x in has)]), "-O3", "-S", "-emit-llvm",
            "-w", "-o", out, source,
        )  # fmt: skip
        return failed(done) if done.returncode else read(out.read_text())


def read(text: str) -> Assembly:
    """Local memory and arrays of LLVM's code of one kernel."""
    local = re.findall(r"^@.* addrspace\(3\) global (.+?) (?:undef|poison|zeroinit)", text, re.M)
    # Not single vectors: a builtin takes their address, which its inlined code does away with.
    private = re.findall(r" = alloca (\[.+?), align", text)
    return Assembly(
        text, local=sum(map(size_of, local)), private=sum(map(size_of, private))
    )  # fmt: skip


def size_of(kind: str) -> int:
    """Bytes of an array, a vector or a number, as LLVM writes it."""
    counts = [int(n) for n in re.findall(r"(\d+) x ", kind)]
    (name,) = re.findall(r"(?:i\d+|half|float|double|bfloat|ptr)\b", kind)
    item = int(name[1:]) // 8 or 1 if name.startswith("i") else _BYTES[name]
    return math.prod(counts) * item
