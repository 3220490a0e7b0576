"""Demonstration: ``python -m benchmarks.demo``.

First a network learns to read real handwritten digits, on every driver that is here, in eager
mode, with Inductor, and with its tensors on the device ``ocl`` (eagerly, lazily, compiled); then
ResNet-18 and BERT, timed against both.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch._dynamo.utils import counters

from benchmarks.contenders import device_of, opencl, prepare
from benchmarks.demo_training import train_digits
from benchmarks.drivers import present_drivers
from benchmarks.errors import float64_reference, largest_error, named
from benchmarks.report import milliseconds, ratio
from benchmarks.steps import step
from benchmarks.worker import first_call, opencl_counters
from benchmarks.zoo import ALL, Entry, Inputs
from ocl_inductor.sweep.performance.timing import Timing, interleave
from ocl_inductor.sweep.process.child import short_message

ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Subject:
    """A model of the second part: its name in the table and what it is fed."""

    title: str
    size: str
    case: str
    batch: int


SUBJECTS = (
    Subject("ResNet-18", "batch 4, 224×224", "resnet18", 4),
    Subject("BERT", "base dimensions, 4 layers, 4×128 tokens", "bert_4layer", 4),
)


@dataclass(slots=True)
class Contest:
    """What was measured for one model; contenders that failed are missing from ``timings``."""

    timings: dict[str, Timing] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    compile_s: dict[str, float] = field(default_factory=dict)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def compete(console: Console, subject: Subject, drivers: list[str]) -> Contest:
    """Compile one model for all contenders, then time them in turns."""
    entry: Entry = ALL[subject.case]
    model, inputs = entry.build(), entry.inputs(batch=subject.batch)
    contest, outputs, calls = Contest(), {}, {}
    for contender in ("eager", "inductor", *map(opencl, drivers)):
        counters.clear()
        name = device_of(contender)
        try:
            with step(console, f"{subject.title}: first call, {name}"):
                function = prepare(contender, model)
                output, contest.compile_s[contender] = first_call(contender, function, inputs)
        except Exception as error:
            contest.failures[contender] = short_message(error)
            continue
        contest.counters[contender] = opencl_counters()
        outputs[contender] = named(output)
        calls[contender] = bind(function, inputs)
    with step(console, f"{subject.title}: timing") as say:
        contest.timings = interleave(calls, ROUNDS, lambda done: say(f"round {done} of {ROUNDS}"))
    with step(console, f"{subject.title}: float64 reference"):
        reference = float64_reference(model, inputs)
    contest.errors = {name: largest_error(out, reference) for name, out in outputs.items()}
    return contest


def bind(function: Callable[..., Any], inputs: Inputs) -> Callable[[], object]:
    return partial(function, *inputs.args, **dict(inputs.kwargs))


def table_of(contests: dict[str, Contest], drivers: list[str]) -> Table:
    """One row for each model and device."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("model", no_wrap=True)
    table.add_column("device", no_wrap=True)
    headings = (
        "eager\nms", "Induc-\ntor ms", "OpenCL\nms", "to\neager", "to In-\nduct.",
        "largest\nerror", "ker-\nnels", "fall-\nbacks", "com-\npile s",
    )  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for title, contest in contests.items():
        medians = {name: timing.median_ms for name, timing in contest.timings.items()}
        for driver in drivers:
            name = opencl(driver)
            counts = contest.counters.get(name, {})
            compile_s = contest.compile_s.get(name)
            table.add_row(
                title,
                driver,
                milliseconds(medians.get("eager")),
                milliseconds(medians.get("inductor")),
                "failed" if name in contest.failures else milliseconds(medians.get(name)),
                ratio(medians.get("eager"), medians.get(name)),
                ratio(medians.get("inductor"), medians.get(name)),
                f"{contest.errors[name]:.0e}" if name in contest.errors else "–",
                str(counts.get("kernels", 0)),
                str(counts.get("fallbacks", 0)),
                "–" if compile_s is None else f"{compile_s:.1f}",
            )
            title = ""
        table.add_section()
    return table


def main() -> int:
    """Run both parts; 1 if there is no driver, a driver failed, or its training does not
    follow eager's to at least ``MIN_ACCURACY``."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    console = Console()
    drivers = present_drivers()
    if not drivers:
        console.print('No OpenCL driver was found. `pip install "ocl-inductor[cpu]"` brings two.')
        return 1
    # Dynamo warns that it leaves out the optimiser's profiler marks.
    torch._logging.set_logs(dynamo=logging.ERROR)
    learned = train_digits(console, drivers)
    console.rule("ResNet-18 and BERT")
    with torch.no_grad():
        contests = {s.title: compete(console, s, drivers) for s in SUBJECTS}
    console.print(table_of(contests, drivers))
    console.print(
        f"{'; '.join(f'{s.title}: {s.size}' for s in SUBJECTS)}. "
        f"Medians of {ROUNDS} interleaved rounds, float32, {torch.get_num_threads()} threads. "
        "“to …”: how many times faster OpenCL is. Largest error: against float64, over all "
        "outputs; eager's own is "
        + ", ".join(f"{contest.errors['eager']:.0e}" for contest in contests.values())
        + ". Compile: seconds to the first result.",
        highlight=False,
    )
    failed = False
    for title, contest in contests.items():
        for contender, message in contest.failures.items():
            failed |= contender.startswith("opencl:")
            console.print(f"{title}: {contender} failed: {message}", style="red", markup=False)
    return 0 if learned and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main())
