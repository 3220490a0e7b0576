"""Offline compilers of OpenCL C: a file each."""

from __future__ import annotations

from gpu_check.compilers.amd import Amd
from gpu_check.compilers.base import Assembly, Compiler
from gpu_check.compilers.intel import Intel
from gpu_check.compilers.nvidia import Nvidia
from gpu_check.compilers.portable import Portable

COMPILERS: dict[str, type[Compiler]] = {
    "amd": Amd,
    "intel": Intel,
    "nvidia": Nvidia,
    "portable": Portable,
}

__all__ = ["COMPILERS", "Assembly", "Compiler"]
