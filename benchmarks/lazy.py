"""A loop of one product and five pointwise operators: lazy mode against eager.

::

    python -m benchmarks.lazy
    OCL_INDUCTOR_MEMORY=discrete python -m benchmarks.lazy --size 64 --profile

``a round`` is the time of a round, values included. ``host µs an operator`` is what a call takes
until it returns, in lazy mode without the graph's own run: the aim is 5 µs. ``the first`` are
those of a round after a wait, in which a record gets its arguments, too.
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
#: Rounds of one record that are timed: fewer operators than those after which it may be cut.
_CONSECUTIVE = 4


def one_round(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``tanh(relu(x w + b) / 2) - 0.1``, all of size (N, N) but ``b`` (N)."""
    y = x @ w
    y = y + b
    y = torch.relu(y)
    y = y * 0.5
    y = torch.tanh(y)
    return y - 0.1


def measure(given: Tensors, rounds: int, wait: Callable[[], object]) -> tuple[float, ...]:
    """Microseconds of a round, and the least of the host's for an operator, in a round after others
    and in one after a wait."""
    x, w, b = given
    for _ in range(50):
        x = one_round(x, w, b)
    wait()
    start = time.perf_counter()
    for _ in range(rounds):
        x = one_round(x, w, b)
    x.cpu()
    whole = (time.perf_counter() - start) / rounds * 1e6
    least = [float("inf")] * _CONSECUTIVE
    for _ in range(min(rounds, 1000)):
        for n in range(_CONSECUTIVE):
            start = time.perf_counter()
            y = one_round(x, w, b)
            least[n] = min(least[n], time.perf_counter() - start)
        wait()
        del y
    first, *others = (seconds / OPERATORS * 1e6 for seconds in least)
    return whole, min(others), first


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
    for name in ("a round, µs", "host µs an operator", "the first"):
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
    for name, found in rows.items():
        table.add_row(name, *(f"{x:.1f}" for x in found))
    Console(width=80).print(table)


if __name__ == "__main__":
    main()
