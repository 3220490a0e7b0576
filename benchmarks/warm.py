"""Seconds to the first result in a process that finds empty caches, and in later ones.

::

    python -m benchmarks.warm resnet50
    python -m benchmarks.warm resnet50 bert --device intel --warm 3 --json out.json

Each contender gets cache folders of its own, empty at first. One process fills them (cold); the
following ones (warm) take turns with the other contenders', so that a change in the machine's speed
hits all of them. Imports of torch, of the model's library and of the compiler are not counted. The
seconds of a warm start are the least of ``--warm`` processes: other work on the machine only adds.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.contenders import is_opencl, opencl
from benchmarks.drivers import present_drivers
from benchmarks.run import ROOT, WORKER
from benchmarks.zoo import find
from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.process.isolation import run_job

TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Line:
    """One contender on one case; seconds are None where ``status`` is not ``ok``."""

    case: str
    contender: str
    status: str
    cold_s: float | None = None
    warm_s: float | None = None
    warm_all_s: tuple[float, ...] = ()
    plan_hits: int = 0
    kernel_misses: int = 0


def measure(case: str, contenders: list[str], warm: int, small: bool, note: Any) -> list[Line]:
    """Every contender's line for one case."""
    with tempfile.TemporaryDirectory(prefix="warm_") as folder:
        first: dict[str, float] = {}
        again: dict[str, list[float]] = {c: [] for c in contenders}
        status = dict.fromkeys(contenders, "ok")
        counters: dict[str, dict[str, int]] = {}
        for turn in range(warm + 1):
            for number, contender in enumerate(contenders):
                if status[contender] != "ok":
                    continue
                note(f"{case}: {contender}, {'cold' if turn == 0 else f'warm {turn}'}")
                job = {
                    "kind": "first",
                    "case": case,
                    "contender": contender,
                    "small": small,
                    "after_imports": True,
                }
                outcome = run_job(
                    job,
                    Path(folder) / str(number),
                    Limits(TIMEOUT_S),
                    module=WORKER,
                    folder=ROOT,
                )
                event = outcome.first("first")
                if event is None:
                    status[contender] = f"{outcome.status}: {outcome.message}"
                elif turn == 0:
                    first[contender] = event["compile_s"]
                else:
                    again[contender].append(event["compile_s"])
                    counters[contender] = event["counters"]
    return [
        Line(
            case,
            c,
            status[c],
            first.get(c),
            min(again[c], default=None),
            tuple(again[c]),
            counters.get(c, {}).get("plan_hits", 0),
            counters.get(c, {}).get("cache_misses", 0),
        )
        for c in contenders
    ]


def table(lines: list[Line]) -> Table:
    result = Table("case", "contender", box=None, pad_edge=False)
    for name in ("cold s", "warm s", "plans", "kernels built"):
        result.add_column(name, justify="right")
    for line in lines:
        if line.status != "ok":
            result.add_row(line.case, line.contender, line.status)
            continue
        plans = (str(line.plan_hits), str(line.kernel_misses)) if is_opencl(line.contender) else ()
        result.add_row(
            line.case, line.contender, *map(_seconds, (line.cold_s, line.warm_s)), *plans
        )
    return result


def _seconds(x: float | None) -> str:
    return "" if x is None else f"{x:.2f}"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("cases", nargs=-1, required=True)
@click.option("--device", "devices", multiple=True, help="OpenCL device (default: pip's drivers).")
@click.option(
    "--against",
    multiple=True,
    default=("eager", "inductor"),
    show_default=True,
    help="Other contenders.",
)
@click.option("--warm", default=3, show_default=True, help="Warm processes for each contender.")
@click.option("--small", is_flag=True, help="Small sizes of the models.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the numbers here too.")
def main(
    cases: tuple[str, ...],
    devices: tuple[str, ...],
    against: tuple[str, ...],
    warm: int,
    small: bool,
    path: Path | None,
) -> None:
    """Seconds to the first result: with empty caches, and in later processes."""
    for case in cases:
        if find(case) is None:
            raise click.UsageError(f"no case {case!r}; `python -m benchmarks.run --list` shows all")
    if "all" in against or any(is_opencl(c) for c in against):
        raise click.UsageError("name OpenCL devices with --device")
    contenders = [*against, *map(opencl, devices or present_drivers())]
    notes = Console(stderr=True)

    def note(text: str) -> None:
        if sys.stderr.isatty():
            notes.print(text, style="dim")

    lines = [line for case in cases for line in measure(case, contenders, warm, small, note)]
    Console(width=100 if not sys.stdout.isatty() else None).print(table(lines))
    if path is not None:
        path.write_text(json.dumps([asdict(line) for line in lines], indent=1) + "\n")
    if any(line.status != "ok" for line in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
