"""AMD's compiler: clang for ``amdgcn`` with the ROCm device libraries."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from gpu_check.compilers.base import Assembly, Compiler, failed, standard
from ocl_inductor.device.described import DescribedTarget

#: Waves that one SIMD of RDNA 2 and 3 holds at most.
_WAVES = 16


class Amd(Compiler):
    """Figures are those of the metadata that drivers launch kernels by."""

    isa = "amdgcn"

    @property
    def _libraries(self) -> Path:
        return self.tree / "lib/x86_64-linux-gnu/amdgcn/bitcode"

    def needs(self) -> tuple[Path, ...]:
        version = self.arch.removeprefix("gfx")
        return self.clang, self._libraries / f"oclc_isa_version_{version}.bc"

    @cached_property
    def version(self) -> str:
        return self.clang_version

    def compile(self, source: Path, target: DescribedTarget, folder: Path) -> Assembly:
        out = folder / "kernel.s"
        done = self.run(
            self.clang, "-x", "cl", standard(target), "-target", "amdgcn-amd-amdhsa",
            f"-mcpu={self.arch}", f"--rocm-device-lib-path={self._libraries}", "-O3", "-S",
            "-o", out, source,
        )  # fmt: skip
        if done.returncode:
            return failed(done)
        return read(out.read_text())


def read(text: str) -> Assembly:
    """The figures of an assembly file with one kernel."""

    def figure(name: str) -> int:
        found = re.search(rf"^ +\.{name}: +(\d+)$", text, re.M)
        assert found is not None, name
        return int(found[1])

    waves = re.search(r"^; Occupancy: (\d+)$", text, re.M)
    assert waves is not None
    return Assembly(
        text,
        registers=figure("vgpr_count"),
        spilled=figure("vgpr_spill_count") + figure("sgpr_spill_count"),
        private=figure("private_segment_fixed_size"),
        local=figure("group_segment_fixed_size"),
        occupancy=100 * int(waves[1]) // _WAVES,
    )
