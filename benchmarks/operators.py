"""Host time of single operators on ``ocl`` tensors, outside of compiled functions.

::

    python -m benchmarks.operators
    OCL_INDUCTOR_MEMORY=discrete python -m benchmarks.operators --profile add

With memory that the host shares these are the CPU's kernels, in place; with memory of the device's
own (``discrete``), graphs of one node. ``first`` is the first call of the process, which compiles;
the others are of calls one after the other. On a CPU's driver a call also waits for its kernel, so
the tensors are small. The aim is 30 µs.
"""

from __future__ import annotations

import cProfile
import itertools
import pstats
import statistics
import time
from collections.abc import Callable

import click
import torch
from rich.console import Console
from rich.table import Table

from ocl_inductor import eager

WARM_UP = 20


def operators(size: int) -> dict[str, Callable[[], object]]:
    """By name, each with tensors of ``size`` squared; those that have a number get a new one at
    each call where their name says that it changes."""
    a, b, out = (torch.randn(size, size).to("ocl") for _ in range(3))
    new = (0.25 + n / 1024 for n in itertools.count())
    return {
        "empty": lambda: torch.empty(size, size, device="ocl"),
        "view": a.t,
        "add": lambda: a + b,
        "add, out": lambda: torch.add(a, b, out=out),
        "mul by 2.5": lambda: a * 2.5,
        "mul, number changes": lambda: a * next(new),
        "add_, alpha changes": lambda: out.add_(a, alpha=next(new)),
        "fill_, value changes": lambda: out.fill_(next(new)),
        "relu": lambda: torch.relu(a),
        "mm": lambda: a @ b,
        "sum": a.sum,
        "cat": lambda: torch.cat([a, b]),
        "copy_": lambda: out.copy_(a),
        "copy_, transposed": lambda: out.copy_(a.t()),
    }


def times_of(call: Callable[[], object], rounds: int) -> list[float]:
    """Microseconds of each call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return times


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--device", help="OpenCL device (default: the preferred one).")
@click.option("--size", default=64, show_default=True, type=click.IntRange(1))
@click.option("--rounds", default=1000, show_default=True, type=click.IntRange(1))
@click.option("--profile", "profiled", help="Show where the time of this operator goes.")
def main(device: str | None, size: int, rounds: int, profiled: str | None) -> None:
    """Microseconds of host time of operators."""
    if device is not None:
        eager.choose(device)
    rows = operators(size)
    table = Table("operator", box=None, pad_edge=False)
    for name in ("first ms", "least µs", "median µs"):
        table.add_column(name, justify="right")
    with torch.no_grad():
        for name, call in rows.items():
            (first,) = times_of(call, 1)
            times_of(call, WARM_UP)
            times = times_of(call, rounds)
            table.add_row(
                name,
                f"{first / 1e3:.0f}",
                f"{min(times):.1f}",
                f"{statistics.median(times):.1f}",
            )
        Console(width=80).print(table)
        if profiled is not None:
            profile = cProfile.Profile()
            profile.runcall(times_of, rows[profiled], rounds)
            pstats.Stats(profile).sort_stats("tottime").print_stats(20)


if __name__ == "__main__":
    main()
