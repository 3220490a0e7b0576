"""Intel's compiler: ``ocloc``, which is its driver's compiler as a program."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from gpu_check.compilers.base import Assembly, Compiler, failed, standard
from ocl_inductor.device.described import DescribedTarget


class Intel(Compiler):
    """Figures are those of the ``.ze_info`` section that drivers launch kernels by."""

    isa = "xe"

    @property
    def _ocloc(self) -> Path:
        return self.tree / "bin/ocloc"

    def needs(self) -> tuple[Path, ...]:
        return self._ocloc, self.root / "packages"

    @cached_property
    def version(self) -> str:
        found = re.search(r"^libigc\d_([\d.]+)", (self.root / "packages").read_text(), re.M)
        assert found is not None
        return f"igc {found[1]}"

    def compile(self, source: Path, target: DescribedTarget, folder: Path) -> Assembly:
        parts = folder / "parts"
        parts.mkdir()
        done = self.run(
            self._ocloc, "compile", "-file", source, "-device", self.arch, "-out_dir", folder,
            "-output", "kernel", "-options", standard(target),
            "-internal_options", "-cl-intel-allow-zebin",
        )  # fmt: skip
        binaries = list(folder.glob("*.bin"))
        if done.returncode or not binaries:
            return failed(done)
        shown = self.run(
            self._ocloc, "disasm", "-file", binaries[0], "-device", self.arch, "-dump", parts
        )
        # Beside a kernel with constants is a table of symbols, which is disassembled too.
        code = [p for p in parts.glob(".text.*.asm") if "Intel_Symbol_Table" not in p.name]
        if shown.returncode or len(code) != 1:
            return failed(shown)
        text = code[0].read_text(errors="replace")
        return read((parts / ".ze_info").read_text(), text, done.stdout + done.stderr)


def read(facts: str, text: str, said: str) -> Assembly:
    """The figures of ``.ze_info`` with one kernel; ``said``: the compiler's warnings."""

    def figure(name: str) -> int:
        found = re.search(rf"^ +{name}: +(\d+)$", facts, re.M)
        return 0 if found is None else int(found[1])

    lanes = figure("simd_size")
    assert lanes, facts
    spilled = re.search(r"spilled around (\d+)", said)
    memory = re.search(r"^ +per_thread_memory_buffers:\n((?: {6,}.*\n?)*)", facts, re.M)
    sizes = re.findall(r"size: +(\d+)", "" if memory is None else memory[1])
    return Assembly(
        text,
        registers=figure("grf_count"),
        spilled=int(spilled[1]) if spilled else 0,
        private=sum(map(int, sizes)),
        local=figure("slm_size"),
        occupancy=100 * lanes // 32,
    )
