"""A training step of networks of images, as pytorch_dlprim's benchmark takes it.

::

    python -m benchmarks.field training
    python -m benchmarks.field training --models resnet18,vgg16 --batch 4 --ways "cpu,ocl compiled"

Forward, loss, backward and SGD with momentum, the batch already on the device; contenders take
turns in one process, or, where that one does not fit, have a process each. There is no dropout, so
the losses of the first steps can be compared: ``difference`` is the largest of theirs from the
CPU's, as a share of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.table import Table

from benchmarks.field.image_step import Started, batch_of, network, started, training_call
from benchmarks.field.lines import Lines
from benchmarks.field.session import Session, options, session, several
from benchmarks.report import formatted, milliseconds, ratio
from benchmarks.ways import WAYS, known, possible
from benchmarks.zoo import ALL
from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.performance.timing import interleave
from ocl_inductor.sweep.process.child import short_message

MODELS = ("alexnet", "resnet18", "resnet50", "vgg16", "mobilenet_v2")
CONTENDERS = ("cpu", "ocl", "ocl lazy", "ocl compiled", "ocl compiled+")
#: Steps whose losses are compared: the second and third depend on the updates.
COMPARED = 3


def measure(job: dict[str, Any], lines: Lines, say: Callable[[str], None]) -> None:
    """A line for each contender of a model; those that fail have theirs before the timing."""
    facts = job["facts"]
    model = network(facts["model"], job["small"])
    images, labels = batch_of(facts["batch"], facts["size"])
    first: dict[str, Started] = {}
    for name in job["ways"]:
        WAYS[name].prepare()  # all of them before the first backward()
    for name in job["ways"]:
        say(f"compiling, {name}")
        make = partial(training_call, WAYS[name], model, images, labels)
        try:
            first[name] = started(WAYS[name], make, COMPARED)
        except Exception as error:
            lines.write("error", **facts, way=name, message=short_message(error))
    calls = {name: found.call for name, found in first.items()}
    timings = interleave(calls, job["repeats"], lambda done: say(f"round {done}"))
    for name, timing in timings.items():
        lines.write(
            **facts,
            way=name,
            step_ms=timing.median_ms,
            least_ms=timing.min_ms,
            spread=timing.spread,
            images_s=facts["batch"] / timing.median_ms * 1e3,
            first_s=first[name].seconds,
            ocl_mib=first[name].ocl_mib,
            losses=first[name].values,
            difference=difference(first[name], first.get("cpu")),
        )


def difference(found: Started, wanted: Started | None) -> float | None:
    """The largest of the losses' distances, as shares; None without losses of the CPU."""
    if wanted is None:
        return None
    pairs = zip(found.values, wanted.values, strict=True)
    return max(abs(ours - theirs) / abs(theirs) for ours, theirs in pairs)


def table_of(lines: list[dict[str, Any]]) -> Table:
    """A row for each line; times faster are against the CPU's of the same model."""
    table = Table(title="A training step", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("model", "with"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ms", "±%", "images/s", "to CPU", "first step s", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    cpu = {line["model"]: line["step_ms"] for line in lines if line.get("way") == "cpu"
           and "step_ms" in line}  # fmt: skip
    for line in lines:
        ms = line.get("step_ms")
        table.add_row(
            line["model"],
            line.get("way", "all"),
            milliseconds(ms) if line["status"] == "ok" else line["status"],
            formatted(line.get("spread"), "{:.0%}").rstrip("%"),
            formatted(line.get("images_s"), "{:.1f}"),
            ratio(cpu.get(line["model"]), ms),
            formatted(line.get("first_s"), "{:.1f}"),
            formatted(line.get("difference"), "{:.0e}"),
        )
    return table


def run(model: str, ways: list[str], facts: dict[str, Any], here: Session, limits: Limits,
        **more: Any) -> None:  # fmt: skip
    """All contenders of a model in one process; those that it did not time, each in its own."""
    title = f"{model}, batch {facts['batch']}, {facts['size']}²"
    facts = {"model": model, **facts}
    if here.cell(title, facts, limits, ways=ways, **more) == "ok":
        return
    for way in ways if len(ways) > 1 else ():
        here.cell(f"{title}, {way}", {**facts, "alone": True}, limits, ways=[way], **more)


def known_model(name: str) -> str:
    """``name`` itself.

    Raises:
        ValueError: the zoo has no such model.
    """
    if name not in ALL:
        raise ValueError(f"no model {name!r}; there are {', '.join(ALL)}")
    return name


@click.command("training", help=__doc__.splitlines()[0])
@click.option("--models", default=",".join(MODELS), show_default=True, help="Of the zoo's.")
@click.option("--ways", default=",".join(CONTENDERS), show_default=True)
@click.option("--batch", default=16, show_default=True, type=click.IntRange(1))
@click.option("--size", default=224, show_default=True, type=click.IntRange(1))
@click.option("--repeats", default=10, show_default=True, type=click.IntRange(1), help="Rounds.")
@click.option("--seconds", default=3600.0, show_default=True, help="Limit for a process.")
@click.option("--small", is_flag=True, help="The small forms of networks, for tests.")
@options
def main(
    models: str,
    ways: str,
    batch: int,
    size: int,
    repeats: int,
    seconds: float,
    small: bool,
    device: str | None,
    output: Path | None,
) -> None:
    """The command."""
    wanted, names = several(models, known_model), possible(several(ways, known))
    with session("training", output, device) as here:
        for model in wanted:
            facts = {"batch": batch, "size": size}
            run(model, names, facts, here, Limits(seconds), repeats=repeats, small=small)
        here.show(
            table_of(here.lines.read()),
            "Medians of rounds in turns: forward, loss, backward, SGD with momentum; float32, "
            "without dropout. First step: with compilation, from empty caches.",
        )
