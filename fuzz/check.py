"""Compiles one program and compares all that it does with eager."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fuzz import there
from fuzz.compare import Verdict, compare
from fuzz.generator import generate
from fuzz.noise import MANY, Reference, reference
from fuzz.program import Program
from fuzz.run import run
from fuzz.strides import wrong_strides

#: What the simulator prints of a kernel that goes wrong.
COMPLAINTS = ("Invalid read", "Invalid write", "data race", "Uninitialized")
#: Ranks, by which these kernels sort, are sums of comparisons (see ``Target.right_numbers``).
NOT_SIMULATED = "sort_runs"
OCLGRIND = "oclgrind"


@dataclass(frozen=True, slots=True)
class Target:
    """Where programs run. ``device``, ``memory``: as ``options={"device": ...}`` takes them.

    ``mode``: how they do it on tensors of the device ``ocl``, one of ``there.MODES``; empty where
    they are compiled for tensors on the CPU.
    """

    device: str
    profile: str
    memory: str = "auto"
    mode: str = ""

    def __str__(self) -> str:
        how = (self.mode,) if self.mode else (self.profile,)
        return ", ".join((self.device, *how, *([self.memory] * (self.memory != "auto"))))

    @property
    def process(self) -> tuple[str, ...]:
        """Targets of which this is equal may share a process."""
        if self.mode:
            return "ocl", self.device, self.memory
        return (OCLGRIND,) if self.device == OCLGRIND else ()

    @property
    def right_numbers(self) -> bool:
        """Oclgrind 21.10 widens a true lane of a vector's comparison to 255 instead of 1."""
        return (self.device, self.profile) != (OCLGRIND, "vector")

    @property
    def not_simulated(self) -> str:
        """How the names of kernels begin that the simulator runs wrongly."""
        return "" if self.right_numbers else NOT_SIMULATED

    @property
    def compiled(self) -> bool:
        """Whether ``torch.compile`` takes part."""
        return self.mode not in (there.EAGER, there.LAZY)

    def options(self) -> dict[str, object]:
        if self.mode:  # the process has the rest
            return {}
        options: dict[str, object] = {
            "device": self.device,
            "profile": self.profile,
            "memory": self.memory,
        }
        if self.device == OCLGRIND:
            # Its compiler is not safe in several threads.
            options |= {"cache": False, "compile_threads": 1}
        return options


@dataclass(frozen=True, slots=True)
class Job:
    """Program ``number`` of ``seed``, or ``program`` itself."""

    seed: int
    number: int
    target: Target
    program: Program | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """``program``: none where the generator made none, or eager refused in the end."""

    program: Program | None
    verdict: Verdict


def check_job(job: Job) -> Outcome:
    """Runs in a child: prepares the process at its first call."""
    _prepare(job.target)
    program = job.program or generate(job.seed, job.number, small=job.target.device == OCLGRIND)
    if program is None:
        return Outcome(None, Verdict())
    try:
        # The caches cost time and are tested elsewhere.
        return Outcome(program, check_program(program, job.target, cache=job.number % 4 == 0))
    except EagerFails:
        return Outcome(None, Verdict())


class EagerFails(Exception):
    """There is nothing to compare with."""


def check_program(program: Program, target: Target, *, cache: bool = True) -> Verdict:
    """Raises EagerFails; whatever the compiled program raises is a verdict."""
    from ocl_inductor.errors import HiddenLayoutError, LoopLimitError
    from tests.device.agreement import poisoned_memory

    try:
        eager = [run(program, program.function(), s) for s in program.sizes]
        expected = [reference(program, s) for s in program.sizes]
    except Exception as e:
        raise EagerFails(str(e)) from e
    compiled = partial(torch.compile, program.function(), dynamic=program.dynamic)
    options = {"verify": True, "cache": cache, **target.options()}
    with _Complaints() as complaints, poisoned_memory():
        torch._dynamo.reset()
        if target.compiled:
            ours = compiled(backend="opencl", options=options)
        else:
            ours = program.function()
        verdict = _judge(program, ours, eager, expected, target)
    if any(e.__name__ in verdict.wrong for e in (HiddenLayoutError, LoopLimitError)):
        return Verdict(refused=verdict.wrong)
    if verdict.wrong and target.compiled:
        torch._dynamo.reset()
        theirs = _judge(program, compiled(backend="aot_eager"), eager, expected)
        return Verdict(foreign=theirs.wrong) if theirs.wrong else verdict
    if target.device == OCLGRIND and (said := complaints.found(target.not_simulated)):
        return Verdict(f"oclgrind: {said}")
    return verdict


def _judge(
    program: Program,
    call: Callable[..., Any],
    eager: Sequence[list[Any]],
    expected: Sequence[Reference],
    target: Target | None = None,
) -> Verdict:
    """What ``call``, a form of the program, does beside eager; on the CPU without a target."""
    mode = "" if target is None else target.mode
    numbers = target is None or target.right_numbers
    elements = undecided = 0
    for sizes, its, wanted in zip(program.sizes, eager, expected):
        try:
            if mode:
                inputs = there.inputs_there(program, sizes)
                mine = there.run_there(inputs, call, program.backward, mode)
            else:
                mine = run(program, call, sizes)
        except Exception as e:
            return Verdict(_raised(e))
        verdict = compare(mine, its, wanted)
        if verdict.wrong and not numbers:
            continue
        if verdict.wrong:
            verdict = compare(mine, its, reference(program, sizes, MANY))
        if verdict.wrong:
            return verdict
        # Of a convolution each device has its own: the CPU's are oneDNN's choice.
        own_strides = mode and any("conv" in step.text for step in program.steps)
        said = wrong_strides(program, sizes, mine[: len(program.outputs)], its)
        if said and not own_strides:
            return Verdict(said)
        elements, undecided = elements + verdict.elements, undecided + verdict.undecided
    return Verdict("", elements, undecided)


def _raised(e: BaseException) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("backend=")] or [""]
    return f"{type(e).__name__}: {lines[0]}"[:300]


_prepared = False


def _prepare(target: Target) -> None:
    global _prepared
    if _prepared:
        return
    _prepared = True
    # Programs are small, and other processes want to run too.
    torch.set_num_threads(1)
    if target.mode:
        there.prepare(target.device, target.memory)
    if target.device == OCLGRIND:
        os.environ["OCL_ICD_VENDORS"] = str(oclgrind_library())
        os.environ["OCLGRIND_DATA_RACES"] = "1"
        import ocl_inductor.device.facts as ours

        # The simulator says that it has no vectors; the code to check is the one of CPUs.
        ours._vector_width = lambda profile, native: 8 if profile == "vector" else 1


def oclgrind_library() -> Path | None:
    """The simulator as a driver, where it is installed."""
    import shutil

    command = shutil.which("oclgrind")
    library = Path(command or "/bin/x").parents[1] / "lib/oclgrind/liboclgrind-rt-icd.so"
    return library if command is not None and library.exists() else None


class _Complaints:
    """Standard error of the whole process, kept: drivers write there."""

    def __enter__(self) -> _Complaints:
        self._file = tempfile.TemporaryFile()
        self._saved = os.dup(2)
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._file.seek(0)
        self._text = self._file.read().decode(errors="replace")
        self._file.close()

    def found(self, but: str) -> str:
        """The simulator's first complaint that is not about a kernel called ``but``..., or ""."""
        lines = [x.strip() for x in self._text.splitlines()]
        for line, kernel in itertools.zip_longest(lines, lines[1:], fillvalue=""):
            ignored = but and kernel.startswith(f"Kernel: {but}")
            if any(c in line for c in COMPLAINTS) and not ignored:
                return line
        return ""
