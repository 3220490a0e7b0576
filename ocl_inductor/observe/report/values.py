"""What the compiler decided, as frozen values of plain Python types.

Sizes are in bytes and counts are of one call; of a graph with symbolic sizes they hold for the
sizes it was traced with.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's code."""

    file: str
    line: int
    function: str
    code: str

    @property
    def place(self) -> str:
        """Short form: ``model.py:12``."""
        return f"{self.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """One FX node: ``target`` is the operator, ``result`` its dtype and shape in short form."""

    name: str
    target: str
    result: str = ""
    source: SourceLine | None = None
    module: str = ""

    @property
    def short(self) -> str:
        """``aten.add.Tensor`` -> ``add``; without what only tells variants apart."""
        parts = self.target.split(".")
        name = parts[1] if len(parts) > 1 and parts[0] in ("aten", "prims") else parts[0]
        return re.sub(r"^_*(native_)?|_legit(_no_training)?$|_with_indices$", "", name)


@dataclass(frozen=True, slots=True)
class StepReport:
    """A kernel launch or a host call.

    ``stage``: ``call`` runs at each call, ``prologue`` when parameters changed. ``operators`` are
    names of FX nodes, ``reads`` and ``writes`` of buffers. ``kernel`` is a position in the graph's
    kernels, -1 for a host call. ``reason`` says why a host call is one. ``flops`` is what the
    kernel computes, ``bytes`` its buffers read or written once; None where unknown.
    """

    number: int
    kind: Literal["kernel", "host"]
    stage: Literal["call", "prologue"]
    name: str
    operators: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    kernel: int = -1
    global_size: tuple[int, ...] = ()
    local_size: tuple[int, ...] = ()
    flops: int | None = None
    bytes: int | None = None
    fallback: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KernelSourceText:
    """A program; steps with the same source share one."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class RefusalReport:
    """Two steps that could have been one kernel, and why they are not.

    ``saved_bytes``: what they pass each other through memory.
    """

    first: int
    second: int
    operator: str
    reason: str
    saved_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ChoiceReport:
    """Which implementation the ``operators`` got, by name, and why others before it did not suit.

    ``problem``: ``gemm``, ``convolution``, ``weight gradient`` or ``attention``. ``declined``:
    pairs of implementation and reason, in the order in which they were tried.
    """

    problem: str
    chosen: str
    declined: tuple[tuple[str, str], ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BufferReport:
    """Memory that the plan provides; alive from step ``first`` to step ``last``, both included.

    ``where``: ``slot`` (scratch), ``prologue`` (scratch, for what is kept alone), ``kept`` (as long
    as the plan), ``output`` (a fresh tensor each call). ``offset``: position in bytes of the buffer
    in the scratch memory, slots side by side.
    """

    name: str
    dtype: str
    size: tuple[int, ...]
    bytes: int
    where: Literal["slot", "prologue", "kept", "output"]
    first: int
    last: int
    slot: int = -1
    offset: int = 0


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Scratch memory of one call. ``lower_bound``: the largest live set; ``unplanned``: the sum."""

    buffers: tuple[BufferReport, ...]
    planned: int
    lower_bound: int
    unplanned: int
    kept: int
    outputs: int

    @property
    def scratch(self) -> tuple[BufferReport, ...]:
        return tuple(b for b in self.buffers if b.where == "slot")

    def live(self, step: int) -> int:
        """Bytes of scratch alive at a step; a buffer written over another counts once with it."""
        return live_bytes(self.scratch, step)


def live_bytes(scratch: Iterable[BufferReport], step: int) -> int:
    """Bytes of the slots that hold a buffer at a step."""
    slots: dict[int, int] = {}
    for b in scratch:
        if b.first <= step <= b.last:
            slots[b.slot] = max(slots.get(b.slot, 0), b.bytes)
    return sum(slots.values())


@dataclass(frozen=True, slots=True)
class GraphReport:
    """One compiled graph. ``kind``: forward, backward or inference; ``compile_id``: Dynamo's.

    ``steps``: what runs at each call, in order, and then the prologue.
    """

    kind: str
    compile_id: str
    device: str
    profile: str
    operators: tuple[OperatorReport, ...]
    steps: tuple[StepReport, ...]
    kernels: tuple[KernelSourceText, ...]
    refusals: tuple[RefusalReport, ...]
    memory: MemoryReport
    inputs: int
    outputs: int
    parameters: int
    symbols: tuple[tuple[str, int], ...] = ()
    choices: tuple[ChoiceReport, ...] = ()

    def operator(self, name: str) -> OperatorReport:
        """The operator of that name; one without facts for nodes that our passes made."""
        found = next((o for o in self.operators if o.name == name), None)
        return found or OperatorReport(name, name)

    @property
    def calls(self) -> tuple[StepReport, ...]:
        return tuple(s for s in self.steps if s.stage == "call")

    @property
    def prologue(self) -> tuple[StepReport, ...]:
        return tuple(s for s in self.steps if s.stage == "prologue")

    @property
    def fallbacks(self) -> tuple[StepReport, ...]:
        return tuple(s for s in self.steps if s.fallback)


@dataclass(frozen=True, slots=True)
class BreakReport:
    """Where Dynamo ended a graph before the function did; ``compile_id``: in which compilations."""

    compile_id: str
    place: str
    code: str
    reason: str
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecompilationReport:
    """A function compiled again, and the guards that failed."""

    compile_id: str
    function: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoofReport:
    """What the device was measured to reach."""

    bandwidth_gb_s: float
    gflop_s: float


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything one run compiled. ``error``: how the run ended, where it ended badly."""

    graphs: tuple[GraphReport, ...]
    breaks: tuple[BreakReport, ...] = ()
    recompilations: tuple[RecompilationReport, ...] = ()
    roof: RoofReport | None = None
    title: str = ""
    error: str = ""

    def to_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent)
