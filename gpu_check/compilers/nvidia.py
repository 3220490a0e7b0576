"""NVIDIA's compiler: PTX from clang with libclc, then ``ptxas``, which is the driver's own."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from gpu_check.compilers.base import Assembly, Compiler, failed, standard
from ocl_inductor.device.described import DescribedTarget

#: Of a multiprocessor: warps, groups and bytes of local memory that it holds at most.
_HOLDS = {"sm_86": (48, 16, 100 << 10)}
_REGISTERS = 65536
_GROUP = re.compile(r"reqd_work_group_size\((\d+), (\d+), (\d+)\)")


class Nvidia(Compiler):
    """A driver's front end is another one, and unrolls otherwise; registers are given by ptxas."""

    isa = "sass"

    @property
    def _library(self) -> Path:
        return self.tree / "lib/clc/nvptx64--nvidiacl.bc"

    @property
    def _ptxas(self) -> Path:
        return self.root / "nvidia/nvidia/cuda_nvcc/bin/ptxas"

    @property
    def _disassembler(self) -> Path:
        return self.root / "nvidia/nvidia/cu13/bin/nvdisasm"

    def needs(self) -> tuple[Path, ...]:
        return self.clang, self._library, self._ptxas, self._disassembler

    @cached_property
    def version(self) -> str:
        found = re.search(r"release (\d+\.\d+)", self.run(self._ptxas, "--version").stdout)
        assert found is not None
        return f"{self.clang_version}, ptxas {found[1]}"

    def compile(self, source: Path, target: DescribedTarget, folder: Path) -> Assembly:
        middle, out = folder / "kernel.ptx", folder / "kernel.cubin"
        front = (
            "-target-feature", "+ptx78", "-target-cpu", "sm_80",
            "-mlink-bitcode-file", self._library,
        )  # fmt: skip
        done = self.run(
            self.clang, "-x", "cl", standard(target), "-target", "nvptx64--nvidiacl",
            "-Wno-linker-warnings", *(x for f in front for x in ("-Xclang", f)), "-O3", "-S",
            "-o", middle, source,
        )  # fmt: skip
        if done.returncode:
            return failed(done)
        done = self.run(self._ptxas, "-v", f"-arch={self.arch}", "-o", out, middle)
        if done.returncode:
            return failed(done)
        code = self.run(self._disassembler, "-c", out)
        if code.returncode:
            return failed(code)
        group = _GROUP.search(source.read_text())
        items = 256 if group is None else int(group[1]) * int(group[2]) * int(group[3])
        return read(done.stderr, code.stdout, self.arch, items)


def read(said: str, text: str, arch: str, items: int) -> Assembly:
    """The figures from what ptxas said of one kernel; ``items``: of a work-group."""

    def figure(pattern: str) -> int:
        found = re.search(pattern, said)
        return 0 if found is None else int(found[1])

    registers, local = figure(r"Used (\d+) registers"), figure(r"(\d+) bytes smem")
    assert registers, said
    return Assembly(
        text,
        registers=registers,
        spilled=figure(r"(\d+) bytes spill stores"),
        private=figure(r"(\d+) bytes stack frame"),
        local=local,
        occupancy=occupancy(arch, registers, local, items),
    )


def occupancy(arch: str, registers: int, local: int, items: int) -> int:
    """Percent of a multiprocessor's warps that groups of so many ``items`` fill."""
    most, groups, memory = _HOLDS[arch]
    warps = -(-items // 32)
    by_registers = _REGISTERS // (-(-registers // 8) * 8 * 32 * warps)
    by_memory = memory // (local + 1024) if local else groups  # the system takes 1 KiB of each
    return 100 * min(groups, by_registers, by_memory, most // warps) * warps // most
