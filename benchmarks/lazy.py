"""A loop of one product and five pointwise operators: lazy mode against eager.

::

    python -m benchmarks.lazy
    OCL_INDUCTOR_MEMORY=discrete python -m benchmarks.lazy --size 64 --profile

``a round`` is the time of a round, values included. ``host µs an operator`` is what a call takes
until it returns, in lazy mode without the graph's own run: the aim is 5 µs.
"""

from __future__ import annotations

import cProfile
import importlib
import pstats
import time
from collections.abc import Callable
from typing import TypeAlias

import click
import torch
from rich.console import Console
from rich.table import Table

Tensors: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
OPERATORS = 6


def one_round(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``tanh(relu(x w + b) / 2) - 0.1``, all of size (N, N) but ``b`` (N)."""
    y = x @ w
    y = y + b
    y = torch.relu(y)
    y = y * 0.5
    y = torch.tanh(y)
    return y - 0.1


def measure(given: Tensors, rounds: int, wait: Callable[[], object]) -> tuple[float, float]:
    """Microseconds of a round, and the least of the host's for an operator."""
    x, w, b = given
    for _ in range(50):
        x = one_round(x, w, b)
    wait()
    start = time.perf_counter()
    for _ in range(rounds):
        x = one_round(x, w, b)
    x.cpu()
    whole = (time.perf_counter() - start) / rounds * 1e6
    least = float("inf")
    for _ in range(min(rounds, 1000)):
        start = time.perf_counter()
        y = one_round(x, w, b)
        least = min(least, time.perf_counter() - start)
        wait()
        del y
    return whole, least / OPERATORS * 1e6


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--device", help="OpenCL device (default: the preferred one).")
@click.option("--size", default=512, show_default=True, type=click.IntRange(1))
@click.option("--rounds", default=1000, show_default=True, type=click.IntRange(1))
@click.option("--profile", "profiled", is_flag=True, help="Show where the host's time goes.")
def main(device: str | None, size: int, rounds: int, profiled: bool) -> None:
    """The loop on the CPU, and on `ocl` eagerly and lazily."""
    eager = importlib.import_module("ocl_inductor.eager")  # not where CUDA's turn is measured
    if device is not None:
        eager.choose(device)
    torch.manual_seed(0)
    home = torch.randn(size, size), torch.randn(size, size) / size**0.5, torch.randn(size)
    x, w, b = (t.to("ocl") for t in home)
    there = x, w, b
    table = Table("where", box=None, pad_edge=False)
    for name in ("a round, µs", "host µs an operator"):
        table.add_column(name, justify="right")
    wait = torch.ocl.synchronize
    with torch.no_grad():
        rows = {"eager on the CPU": measure(home, rounds, lambda: None)}
        rows["eager on ocl"] = measure(there, rounds, wait)
        with torch.ocl.lazy():
            rows["lazy on ocl"] = measure(there, rounds, wait)
            if profiled:
                profile = cProfile.Profile()
                profile.runcall(measure, there, rounds, wait)
                pstats.Stats(profile).sort_stats("tottime").print_stats(20)
    for name, (whole, host) in rows.items():
        table.add_row(name, f"{whole:.1f}", f"{host:.1f}")
    Console(width=80).print(table)


if __name__ == "__main__":
    main()
