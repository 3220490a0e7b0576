"""A network of images over batch sizes and resolutions: time and memory, until it does not fit.

::

    python -m benchmarks.field resolution --seconds 120
    python -m benchmarks.field resolution --sizes 64,256 --batches 4 --kinds inference

Each cell has a process of its own. One that runs out of memory or time is recorded as ``oom`` or
``timeout``; those that are larger in both sizes are recorded as ``skipped`` and not tried. PyTorch
refuses to train batch norms on one value a channel: batch 1 at up to 32², an ``error`` everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil
from rich import box
from rich.table import Table

import ocl_inductor
from benchmarks.field.image_step import (
    batch_of,
    inference_call,
    network,
    started,
    training_call,
)
from benchmarks.field.lines import Lines
from benchmarks.field.session import Session, options, session, several
from benchmarks.field.training import known_model
from benchmarks.report import formatted, milliseconds
from benchmarks.ways import WAYS, known, possible
from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.performance.timing import interleave
from ocl_inductor.sweep.process.child import peak_mib, reset_peak, resident_mib

CONTENDERS = ("cpu", "ocl", "ocl lazy", "ocl compiled")
KINDS = ("inference", "training")
BATCHES, SIZES = (1, 4, 16, 64), (8, 16, 32, 64, 128, 224, 256, 512, 1024)
#: How a cell ends that is too large; larger ones are then not tried.
TOO_LARGE = ("oom", "timeout", "crashed")
#: Of the memory that is available at the beginning, what a cell's process may take.
_SHARE = 0.8
#: Calls are repeated for so long to see how busy the processor is.
_BUSY_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured in one process. ``size``: of a side, in pixels."""

    model: str
    kind: str
    way: str
    batch: int
    size: int

    @property
    def title(self) -> str:
        return f"{self.model} {self.kind}, {self.way}, batch {self.batch}, {self.size}²"

    def facts(self) -> dict[str, Any]:
        """For the lines."""
        return {name: getattr(self, name) for name in self.__slots__}

    def contains(self, other: Cell) -> bool:
        """Whether this one is as large in both sizes, or larger."""
        alike = (self.model, self.kind, self.way) == (other.model, other.kind, other.way)
        return alike and self.batch >= other.batch and self.size >= other.size


def measure(job: dict[str, Any], lines: Lines, say: Callable[[str], None]) -> None:
    """The line of a cell. Memory counts from when the network and its batch are there."""
    facts = job["facts"]
    model = network(facts["model"], job["small"])
    images, labels = batch_of(facts["batch"], facts["size"])
    way = WAYS[facts["way"]]
    way.prepare()
    reset_peak()
    before = resident_mib()
    if facts["kind"] == "training":
        found = started(way, lambda: training_call(way, model, images, labels), 1)
    else:
        found = started(way, lambda: inference_call(way, model, images), 1)
    say(f"first call after {found.seconds:.1f} s")
    timing = interleave({facts["way"]: found.call}, job["repeats"])[facts["way"]]
    peak = peak_mib()
    lines.write(
        **facts,
        ms=timing.median_ms,
        least_ms=timing.min_ms,
        images_s=facts["batch"] / timing.median_ms * 1e3,
        first_s=found.seconds,
        value=found.values[0],
        ocl_mib=found.ocl_mib,
        process_mib=peak,
        process_before_mib=before,
        cores_busy=cores_busy(found.call, lines.facts["cores"]),
        kernels_run=None if way.device == "cpu" else kernels_run(found.call),
    )


def cores_busy(call: Callable[[], object], cores: int) -> float:
    """Utilisation of the processor: the share of its cores' time that this process uses in calls.

    On a CPU's driver that is the device's as well; waiting in a loop counts.
    """
    start, used = time.perf_counter(), time.process_time()
    call()
    while time.perf_counter() - start < _BUSY_SECONDS:
        call()
    used = time.process_time() - used
    return used / (time.perf_counter() - start) / cores


def kernels_run(call: Callable[[], object]) -> float:
    """Utilisation of the device: the share of a call's time in which a kernel of ours runs there,
    by the driver's own times. Operators that run on the host are not among them."""
    with ocl_inductor.profile() as profile:
        call()
    return profile.breakdown.active


def go_through(cells: Iterator[Cell], here: Session, limits: Limits, **more: Any) -> None:
    """Measure the cells in order; those that contain one that was too large are only recorded."""
    failed: list[tuple[Cell, str]] = []
    for cell in cells:
        reason = next((why for small, why in failed if cell.contains(small)), None)
        if reason is not None:
            here.lines.write("skipped", **cell.facts(), message=reason)
            continue
        status = here.cell(cell.title, cell.facts(), limits, **more)
        if status in TOO_LARGE:
            failed.append((cell, f"{status} at batch {cell.batch}, {cell.size}²"))


def table_of(lines: list[dict[str, Any]]) -> Table:
    """A row for each line."""
    table = Table(title="Batch sizes and resolutions", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("kind", "with"):
        table.add_column(heading, no_wrap=True)
    for heading in (
        "batch",
        "size",
        "ms",
        "images/s",
        "first s",
        "ocl MiB",
        "process MiB",
        "cores",
        "kernels",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            line["kind"],
            line["way"],
            str(line["batch"]),
            str(line["size"]),
            milliseconds(line.get("ms")) if line["status"] == "ok" else line["status"],
            formatted(line.get("images_s"), "{:.1f}"),
            formatted(line.get("first_s"), "{:.1f}"),
            formatted(line.get("ocl_mib"), "{:.1f}"),
            formatted(line.get("process_mib"), "{:.0f}"),
            formatted(line.get("cores_busy"), "{:.0%}"),
            formatted(line.get("kernels_run"), "{:.0%}"),
        )
    return table


def known_kind(name: str) -> str:
    """``name`` itself.

    Raises:
        ValueError: it is neither inference nor training.
    """
    if name not in KINDS:
        raise ValueError(f"no kind {name!r}; there are {', '.join(KINDS)}")
    return name


@click.command("resolution", help=__doc__.splitlines()[0])
@click.option("--model", default="resnet50", show_default=True, help="Of the zoo's.")
@click.option("--kinds", default=",".join(KINDS), show_default=True)
@click.option("--ways", default=",".join(CONTENDERS), show_default=True)
@click.option("--batches", default=",".join(map(str, BATCHES)), show_default=True)
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True)
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="Rounds.")
@click.option("--seconds", default=300.0, show_default=True, help="Limit for a cell.")
@click.option("--memory", type=float, help="GiB for a cell (default: 80% of what is available).")
@click.option("--small", is_flag=True, help="The small form of the network, for tests.")
@options
def main(
    model: str,
    kinds: str,
    ways: str,
    batches: str,
    sizes: str,
    repeats: int,
    seconds: float,
    memory: float | None,
    small: bool,
    device: str | None,
    output: Path | None,
) -> None:
    """The command."""
    wanted, names = several(kinds, known_kind), possible(several(ways, known))
    several(model, known_model)
    grid = sorted((s, b) for s in several(sizes, int) for b in several(batches, int))
    cells = (
        Cell(model, kind, way, batch, size)
        for kind in wanted
        for way in names
        for size, batch in grid
    )
    most = psutil.virtual_memory().available * _SHARE if memory is None else memory * 2**30
    with session("resolution", output, device) as here:
        here.lines.facts["limits"] = {"seconds": seconds, "memory_gib": most / 2**30}
        go_through(cells, here, Limits(seconds, int(most)), repeats=repeats, small=small)
        here.show(
            table_of(here.lines.read()),
            f"Limits of a cell: {seconds:g} s, {most / 2**30:.1f} GiB. Memory: at most, of `ocl` "
            "tensors and of the whole process. First call: with compilation. Cores: the share of "
            "their time that the process uses. Kernels: the share of time in which one runs.",
        )
