"""From the plans of a case to its figures on a device."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpu_check import reading
from gpu_check.cases import PRODUCTS, Case
from gpu_check.compilers import Assembly, Compiler
from gpu_check.figures import Figures
from gpu_check.launches import asks_too_much, is_starved, launches
from gpu_check.strides import strided
from gpu_check.targets import Device
from ocl_inductor.lowering.interpret import BELONGS_ON_HOST
from ocl_inductor.plan.plan import HostCall, Kernel, Launch, Plan

#: How the names of the kernels begin that templates for products make.
_TEMPLATES = ("gemm_", "conv_", "attention_", "mma_")


@dataclass
class Checked:
    """Figures, and what people need to look further.

    Attributes:
        problems: failures in words.
        notes: which kernel is starved, strides, spills or uses private memory.
    """

    figures: Figures
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compile_all(
    sources: Sequence[str],
    device: Device,
    compiler: Compiler,
    spread: Callable[..., Iterable[Assembly]],
    keep: Path | None = None,
) -> dict[str, Assembly]:
    """Each different source once. ``spread``: ``map``, of a pool of threads.

    ``keep``: sources and code stay in this folder, by the source's checksum.
    """
    different = list(dict.fromkeys(sources))
    facts = device.facts

    def one(source: str) -> Assembly:
        with tempfile.TemporaryDirectory(prefix="gpu_check_") as name:
            folder = Path(name)
            path = folder / "kernel.cl"
            path.write_text(source)
            work = folder / "work"
            work.mkdir()
            found = compiler.compile(path, facts, work)
        if keep is not None:
            stem = hashlib.sha256(source.encode()).hexdigest()[:12]
            (keep / f"{stem}.cl").write_text(source)
            (keep / f"{stem}.{device.name}.s").write_text(found.text or found.failure)
        return found

    return dict(zip(different, spread(one, different)))


def sources_of(plans: Sequence[Plan]) -> list[str]:
    return [k.source for plan in plans for k in plan.kernels]


def check(
    case: Case,
    plans: Sequence[Plan],
    device: Device,
    compiler: Compiler,
    code: dict[str, Assembly],
) -> Checked:
    """Judge the compiled kernels of a case."""
    target = device.facts
    kernels = {k.source: k for plan in plans for k in plan.kernels}
    built = {source: code[source] for source in kernels}
    good = {s: a for s, a in built.items() if not a.failure}
    problems = [
        f"{kernels[s].name}: {a.failure.splitlines()[0]}" for s, a in built.items() if a.failure
    ]
    notes = [
        f"{kernels[s].name}: {a.spilled} spilled, {a.private} bytes private"
        for s, a in good.items()
        if a.spilled or a.private
    ]
    starved = steps = 0
    for step, kernel in _launched(plans):
        idle = is_starved(step, target)
        large_steps = strided(kernel, step)
        starved += idle
        steps += len(large_steps)
        where = f"{kernel.name} of {list(step.global_size)} work-items"
        notes += [f"{where}: starved"] * idle
        notes += [f"{where}: strides through {', '.join(sorted(large_steps))}"] * bool(large_steps)
        if asks_too_much(step, built[kernel.source].local, target):
            problems.append(f"{kernel.name}: more than {target.description} has")
    problems += [
        f"on the host: {s.operator}"
        for p in plans
        for s in p.steps
        if isinstance(s, HostCall) and s.operator not in BELONGS_ON_HOST
    ]
    counted = {s: reading.read(a.text, compiler.isa) for s, a in good.items() if compiler.isa}
    loads = sum(r.loads for r in counted.values())
    figures = Figures(
        kernels=len(kernels),
        failures=len(problems),
        spilled=sum(a.spilled for a in good.values()),
        private=sum(a.private for a in good.values()),
        registers=max((a.registers for a in good.values()), default=0),
        occupancy=min((a.occupancy for a in good.values()), default=0),
        fma=_fma(case, plans, counted),
        wide=100 * sum(r.wide for r in counted.values()) // loads if loads else None,
        address64=sum(r.address64 for r in counted.values()),
        starved=starved,
        strided=steps,
    )
    return Checked(figures, problems, notes)


def _launched(plans: Sequence[Plan]) -> list[tuple[Launch, Kernel]]:
    return [(s, p.kernels[s.kernel]) for p in plans for s in launches(p)]


def _fma(case: Case, plans: Sequence[Plan], counted: dict[str, reading.Reading]) -> int | None:
    """Of the kernel with the most operations, what of its hottest loop is multiply-adds; if that
    kernel is a template's.
    """
    if case.family not in PRODUCTS:
        return None
    _, kernel = max(_launched(plans), key=lambda x: int(x[0].flops))
    if not kernel.name.startswith(_TEMPLATES):
        return None
    found = counted.get(kernel.source)
    return 100 * found.fma // found.loop if found is not None and found.loop else None
