"""Operators one after the other: a product and five pointwise ones, over sizes of matrices.

::

    python -m benchmarks.field sequential
    python -m benchmarks.field sequential --sizes 64,128,256 --rounds 100

The loop is that of ``benchmarks.lazy``: each round needs the one before, and its value is asked for
at the end of the loop. Contenders take turns. ``product`` is what the product alone takes on the
CPU: where it is about 100 µs, the host's time for six operators begins to be the smaller part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from rich import box
from rich.table import Table
from torch import Tensor

from benchmarks.field.lines import Lines
from benchmarks.field.session import options, session, several
from benchmarks.lazy import OPERATORS, Tensors, one_round
from benchmarks.report import formatted
from benchmarks.ways import WAYS, Way, known, possible
from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.performance.timing import Timing, interleave
from ocl_inductor.sweep.process.child import short_message

CONTENDERS = ("cpu", "ocl", "ocl lazy", "ocl compiled")
SIZES = (16, 32, 64, 128, 192, 256, 384, 512, 1024, 2048)
#: The name of the CPU's product among what is timed.
_PRODUCT = "product"


def measure(job: dict[str, Any], lines: Lines, say: Callable[[str], None]) -> None:
    """A line for each contender at each size, and one for each about where it begins to win."""
    facts, ways = job["facts"], job["ways"]
    for name in ways:
        WAYS[name].prepare()
    medians: dict[int, dict[str, float]] = {}
    with torch.no_grad():
        for size in job["sizes"]:
            say(f"{size}x{size}")
            medians[size] = at_size(size, ways, job, lines)
    for name in ways if "cpu" in ways else ():
        if name != "cpu":
            wins = wins_from({s: (m.get("cpu"), m.get(name)) for s, m in medians.items()})
            lines.write("crossing", **facts, way=name, wins_from=wins)


def at_size(size: int, ways: list[str], job: dict[str, Any], lines: Lines) -> dict[str, float]:
    """Lines of all contenders at a size; their microseconds a round."""
    torch.compiler.reset()  # a function is compiled for few sizes only, then not any more
    facts, rounds = {**job["facts"], "size": size}, job["rounds"]
    torch.manual_seed(0)
    given = torch.randn(size, size), torch.randn(size, size) / size**0.5, torch.randn(size)
    expected = one_round(*(t.double() for t in given))
    calls: dict[str, Callable[[], object]] = {}
    differences: dict[str, float] = {}
    for name in ways:
        try:
            calls[name] = loop(WAYS[name], given, rounds)
            result = loop(WAYS[name], given, 1)()
            differences[name] = (result.double() - expected).abs().max().item()
        except Exception as error:
            calls.pop(name, None)
            lines.write("error", **facts, way=name, message=short_message(error))
    products = partial(several_products, given[0], given[1], rounds)
    timings = interleave({**calls, _PRODUCT: products}, job["repeats"])
    product_us = per_round(timings.pop(_PRODUCT), rounds)
    for name, timing in timings.items():
        us = per_round(timing, rounds)
        lines.write(
            **facts,
            way=name,
            rounds=rounds,
            round_us=us,
            spread=timing.spread,
            operators_s=OPERATORS / us * 1e6,
            gflop_s=2 * size**3 / us / 1e3,
            cpu_product_us=product_us,
            error=differences[name],
        )
    return {name: per_round(timing, rounds) for name, timing in timings.items()}


def loop(way: Way, given: Tensors, rounds: int) -> Callable[[], Tensor]:
    """A function that makes so many rounds and gives the last one's value, on the host."""
    start, w, b = (t.to(way.device) for t in given)
    turn = way.function(one_round)

    def run() -> Tensor:
        x = start
        with way.context():
            for _ in range(rounds):
                x = turn(x, w, b)
            return x.cpu()

    return run


def several_products(a: Tensor, b: Tensor, rounds: int) -> None:
    """The product of a round, as often."""
    for _ in range(rounds):
        a @ b


def per_round(timing: Timing, rounds: int) -> float:
    """Microseconds."""
    return timing.median_ms / rounds * 1e3


def wins_from(times: dict[int, tuple[float | None, float | None]]) -> int | None:
    """The smallest size from which on the second time is the smaller one at all sizes."""
    found = None
    for size in sorted(times, reverse=True):
        theirs, ours = times[size]
        if theirs is None or ours is None or ours >= theirs:
            break
        found = size
    return found


def table_of(lines: list[dict[str, Any]], ways: list[str]) -> Table:
    """A row for each size: microseconds a round of each contender."""
    table = Table(title="µs a round of six operators", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("size", _PRODUCT, *ways):
        table.add_column(heading, justify="right", no_wrap=True)
    rows: dict[int, dict[str, dict[str, Any]]] = {}
    for line in lines:
        if "size" in line:
            rows.setdefault(line["size"], {})[line["way"]] = line
    for size, row in rows.items():
        product = next((x["cpu_product_us"] for x in row.values() if "cpu_product_us" in x), None)
        cells = [
            formatted(row.get(way, {}).get("round_us"), "{:.1f}")
            if row.get(way, {}).get("status", "ok") == "ok"
            else row[way]["status"]
            for way in ways
        ]
        table.add_row(str(size), formatted(product, "{:.1f}"), *cells)
    return table


def crossings(lines: list[dict[str, Any]]) -> list[str]:
    """In words, where each contender begins to win."""
    return [
        f"{line['way']}: "
        + ("no size from which it wins" if line["wins_from"] is None else
           f"faster than the CPU's eager mode from {line['wins_from']} on")
        for line in lines
        if line["status"] == "crossing"
    ]  # fmt: skip


@click.command("sequential", help=__doc__.splitlines()[0])
@click.option("--ways", default=",".join(CONTENDERS), show_default=True)
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True)
@click.option("--rounds", default=300, show_default=True, type=click.IntRange(1))
@click.option("--repeats", default=7, show_default=True, type=click.IntRange(1), help="Loops.")
@click.option("--seconds", default=3600.0, show_default=True, help="Limit for the process.")
@options
def main(
    ways: str,
    sizes: str,
    rounds: int,
    repeats: int,
    seconds: float,
    device: str | None,
    output: Path | None,
) -> None:
    """The command."""
    names, wanted = possible(several(ways, known)), several(sizes, int)
    with session("sequential", output, device) as here:
        here.cell(
            "rounds of six operators", {}, Limits(seconds),
            ways=names, sizes=wanted, rounds=rounds, repeats=repeats,
        )  # fmt: skip
        lines = here.lines.read()
        here.show(
            table_of(lines, names),
            f"Medians of {repeats} loops of {rounds} rounds, in turns; product: alone, on the CPU.",
            *crossings(lines),
        )
