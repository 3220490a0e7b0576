"""The dispatch-overhead sweep: many tiny operators, and where their time goes.

A call costs a fixed time before and after its kernels (guards, binding tensors, waiting), a time
for each launch, and the work itself. Programs that differ in one of these at a time show which of
them makes the device lose to the CPU, and from which size on it wins. Times are the fastest of
several samples: an overhead is what a call cannot do without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from ocl_inductor.sweep.performance.timing import interleave
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.child import Emit, short_message
from ocl_inductor.sweep.process.compiled import forget, statistics
from ocl_inductor.sweep.process.job import Job

#: Operators of a program, and elements (or the square root of them, for products) they work on.
COUNTS = (1, 8, 64)
SIZES = (64, 4096, 262_144)


class Chain(nn.Module):
    """``count`` pointwise operators in a row, which a compiler can make one kernel."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index in range(self.count):
            x = torch.tanh(x) if index % 2 else x * 1.01 + 0.1
        return x


class Products(nn.Module):
    """``count`` matrix products in a row, each of which needs all of the one before."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.shape[0] ** -0.5
        y = x
        for _ in range(self.count):
            y = (y @ x) * scale
        return y


@dataclass(frozen=True, slots=True)
class Program:
    """A model of ``count`` operators over ``elements`` elements each."""

    kind: str
    count: int
    elements: int

    @property
    def name(self) -> str:
        return f"{self.kind} of {self.count}, {self.elements} elements"

    def build(self) -> tuple[nn.Module, torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        if self.kind == "chain":
            return Chain(self.count), torch.randn(self.elements, generator=generator)
        edge = round(self.elements**0.5)
        return Products(self.count), torch.randn(edge, edge, generator=generator)


PROGRAMS = tuple(
    Program(kind, count, elements)
    for kind in ("chain", "products")
    for elements in SIZES
    for count in COUNTS
    if not (kind == "products" and elements == SIZES[-1] and count == COUNTS[-1])
)


@dataclass(frozen=True, slots=True)
class Costs:
    """What a backend's calls cost besides the work, in microseconds.

    ``fixed``: a call with one launch over almost nothing. ``launch``: each further launch.
    """

    fixed: float
    launch: float


@dataclass(frozen=True, slots=True)
class Line:
    """One program on one backend beside eager; times in microseconds.

    ``reason`` says what most of the time goes to, where the backend is slower than eager.
    """

    kind: str
    count: int
    elements: int
    backend: str
    eager_us: float
    backend_us: float
    launches: int | None
    fixed_us: float
    launch_us: float
    work_us: float
    reason: str

    @property
    def speedup(self) -> float:
        return self.eager_us / self.backend_us

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "speedup": self.speedup}


def run_overhead(job: Job, emit: Emit) -> None:
    """Time every program on eager and the job's backends; emits ``overhead`` for each."""
    backends = [Backend.parse(label) for label in job.backends]
    emit("phase", phase="backend")
    for program in PROGRAMS:
        emit("progress", text=program.name)
        module, x = program.build()
        calls: dict[str, Callable[[], object]] = {"eager": partial(module, x)}
        launches: dict[str, int | None] = {}
        with torch.no_grad():
            for backend in backends:
                forget()
                try:
                    call = partial(backend.compile(module, None), x)
                    with backend.compiling():
                        call()
                except Exception as error:
                    emit("failed", backend=backend.label, message=short_message(error))
                    continue
                found = statistics(backend)
                launches[backend.label] = found["launches"]
                calls[backend.label] = call
            timings = interleave(calls, max(3, job.repeat // 2))
        emit(
            "overhead",
            program=asdict(program),
            launches=launches,
            microseconds={label: timing.min_ms * 1e3 for label, timing in timings.items()},
        )


def costs(measured: Sequence[Mapping[str, Any]], backend: str) -> Costs:
    """Fixed and launch cost of a backend, from its smallest programs.

    The fixed cost is that of the smallest chain of one operator; the launch cost the slope of the
    time over launches from the fewest to the most products of the smallest size.
    """
    smallest = [m for m in measured if m["program"]["elements"] == SIZES[0]]
    smallest = [m for m in smallest if backend in m["microseconds"]]

    def one(kind: str, count: int) -> Mapping[str, Any] | None:
        wanted = {"kind": kind, "count": count}
        return next((m for m in smallest if m["program"].items() >= wanted.items()), None)

    chain = one("chain", COUNTS[0])
    few, many = one("products", COUNTS[0]), one("products", COUNTS[-1])
    fixed = chain["microseconds"][backend] if chain else 0.0
    if few is None or many is None:
        return Costs(fixed, 0.0)
    more = _launches(many, backend) - _launches(few, backend)
    slower = many["microseconds"][backend] - few["microseconds"][backend]
    return Costs(fixed, max(0.0, slower / more) if more > 0 else 0.0)


def _launches(measured: Mapping[str, Any], backend: str) -> int:
    """Launches of a call; operators where a backend does not count them."""
    found = measured["launches"].get(backend)
    return int(found if found is not None else measured["program"]["count"])


def explain(measured: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Every program and backend with its time taken apart."""
    backends = dict.fromkeys(b for m in measured for b in m["microseconds"] if b != "eager")
    lines = []
    for backend in backends:
        cost = costs(measured, backend)
        for found in measured:
            if backend in found["microseconds"]:
                lines.append(_line(found, backend, cost))
    return lines


def _line(found: Mapping[str, Any], backend: str, cost: Costs) -> Line:
    program, times = found["program"], found["microseconds"]
    total, eager = times[backend], times["eager"]
    launches = _launches(found, backend)
    fixed = min(total, cost.fixed)
    launching = min(total - fixed, max(0, launches - 1) * cost.launch)
    parts = {
        "the fixed cost of a call": fixed,
        f"{launches} launches": launching,
        "the work of the kernels": total - fixed - launching,
    }
    slower = total > eager
    return Line(
        program["kind"],
        program["count"],
        program["elements"],
        backend,
        eager,
        total,
        found["launches"].get(backend),
        fixed,
        launching,
        total - fixed - launching,
        max(parts, key=lambda part: parts[part]) if slower else "",
    )


def crossings(lines: Sequence[Line]) -> list[tuple[str, str, int, int | None]]:
    """For each backend, kind and count: the smallest size at which it is faster than eager."""
    groups: dict[tuple[str, str, int], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.backend, line.kind, line.count), []).append(line)
    return [
        (*key, min((m.elements for m in members if m.speedup > 1), default=None))
        for key, members in groups.items()
    ]
