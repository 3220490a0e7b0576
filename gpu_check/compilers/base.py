"""What every offline compiler gives, and where the lab is that has them."""

from __future__ import annotations

import os
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from platformdirs import user_cache_path

from ocl_inductor.device.described import DescribedTarget
from ocl_inductor.support import child_process

#: The command that installs the compilers.
REMEDY = "run tools/gpu_lab.sh"

#: No kernel takes so long, s.
LIMIT = 120


def lab() -> Path:
    """Where ``tools/gpu_lab.sh`` puts them: ``$GPU_LAB``, else in the user's cache folder, beside
    the folder of our own cache, which is private.
    """
    named = os.environ.get("GPU_LAB")
    return Path(named) if named else user_cache_path("ocl_inductor_gpu_lab", appauthor=False)


@dataclass(frozen=True)
class Assembly:
    """A compiled kernel; sizes in bytes.

    Attributes:
        text: what reading.py reads.
        registers: of a work-item, where the compiler says; of Intel's threads, 32-byte registers.
        spilled: registers that lie in memory, in the compiler's unit.
        private: memory of one work-item (of Intel's threads: of one thread), spills included.
        local: memory of a work-group.
        occupancy: how many threads (waves, warps) one scheduler can hold of the most it could, in
            percent; of Intel's devices, what the width of its threads is of 32 lanes.
        failure: the compiler's words where it refused; everything else is 0 then.
    """

    text: str = ""
    registers: int = 0
    spilled: int = 0
    private: int = 0
    local: int = 0
    occupancy: int = 0
    failure: str = ""


class Compiler(ABC):
    """An offline compiler of OpenCL C for one architecture."""

    #: The key of ``reading.ISAS`` that reads its text; empty where there are no instructions.
    isa = ""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.root = lab()

    @abstractmethod
    def needs(self) -> tuple[Path, ...]:
        """The files without which it does not run."""

    def missing(self) -> str:
        """Why it cannot be used; empty where it can."""
        absent = [str(p) for p in self.needs() if not p.exists()]
        return f"{self.arch}: no {absent[0]}; {REMEDY}" if absent else ""

    @cached_property
    @abstractmethod
    def version(self) -> str:
        """What figures are comparable for: the compiler's name and version."""

    @abstractmethod
    def compile(self, source: Path, target: DescribedTarget, folder: Path) -> Assembly:
        """Compile a file with one kernel; ``folder`` is empty, and the compiler's to use."""

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        """Run one of the lab's programs with the lab's libraries; a time-out is a failure."""
        libraries = [self.tree / "lib/x86_64-linux-gnu", self.tree / "lib/llvm-19/lib"]
        environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}
        words = [str(x) for x in command]
        done = child_process.run(words, LIMIT, environment)
        if done.code is None:
            return subprocess.CompletedProcess(words, 124, "", f"nothing after {LIMIT} s")
        return subprocess.CompletedProcess(words, done.code, done.stdout, done.stderr)

    @property
    def tree(self) -> Path:
        """What packages of the distribution put into ``/usr``."""
        return self.root / "tree/usr"

    @property
    def clang(self) -> Path:
        return self.tree / "lib/llvm-19/bin/clang"

    @cached_property
    def clang_version(self) -> str:
        words = self.run(self.clang, "--version").stdout.split()
        return f"clang {words[words.index('version') + 1].split('.')[0]}"


def standard(target: DescribedTarget) -> str:
    """The option that names the language of the device."""
    return f"-cl-std=CL{target.opencl_c[0]}.{target.opencl_c[1]}"


def failed(done: subprocess.CompletedProcess[str]) -> Assembly:
    """Of a compiler that refused: what it said, from the first error on."""
    said = (done.stderr + done.stdout).strip()
    first = next((n for n, line in enumerate(said.splitlines()) if "error" in line.lower()), 0)
    return Assembly(failure="\n".join(said.splitlines()[first:]) or f"exit code {done.returncode}")
