"""One epoch of a small network on images of 28x28 digits, with the accuracy after it.

::

    python -m benchmarks.field mnist
    python -m benchmarks.field mnist --images 6400 --ways "cpu,ocl compiled"

Each contender has a process of its own, and sees the same batches of 64, which come from the host.
The first steps compile (lazy mode in the second and third, too) and have a time of their own;
``epoch`` is the time of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch
from rich import box
from rich.table import Table
from torch import Tensor, nn

from benchmarks import digits
from benchmarks.field.lines import Lines
from benchmarks.field.scans import scans
from benchmarks.field.session import options, session, several
from benchmarks.report import formatted, ratio
from benchmarks.ways import WAYS, Way, known, possible
from ocl_inductor.support.child_process import Limits
from torchbench_configs.models.small_cnns import mnist_cnn

CONTENDERS = ("cpu", "cpu 1 thread", "ocl", "ocl lazy", "ocl compiled", "ocl compiled+")
WIDTH, RATE = 32, 1e-3
#: Steps whose time is not the epoch's.
FIRST = 5
#: Steps between two looks at how far it is.
_SHOWN = 50


def measure(job: dict[str, Any], lines: Lines, say: Callable[[str], None]) -> None:
    """A line about one contender's epoch."""
    facts = job["facts"]
    way = WAYS[facts["way"]]
    way.prepare()
    data = scans(facts["images"])
    torch.manual_seed(0)
    model = mnist_cnn(WIDTH).to(way.device).train()
    learn = learner(way, model)
    losses, seconds = [], []
    start = time.perf_counter()
    with way.context():
        for number, (images, labels) in enumerate(digits.batches(data, 1)):
            losses.append(learn(images.to(way.device), labels.to(way.device)))
            if number == FIRST - 1:
                way.wait()
                seconds.append(time.perf_counter() - start)
                start = time.perf_counter()
            elif number % _SHOWN == 0:
                say(f"step {number}")
        way.wait()
    seconds.append(time.perf_counter() - start)
    right = digits.accuracy(predictions(model, data.test_images, way), data.test_labels)
    values = torch.stack(losses).cpu()
    steps = len(values) - FIRST
    lines.write(
        **facts,
        threads=torch.get_num_threads(),
        first_steps=FIRST,
        first_s=seconds[0],
        steps=steps,
        epoch_s=seconds[1],
        step_ms=seconds[1] / steps * 1e3,
        images_s=steps * digits.BATCH / seconds[1],
        loss=values[-max(1, steps // 10) :].mean().item(),
        accuracy=right,
    )


def learner(way: Way, model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """A function that makes a step with Adam and gives the loss before it."""
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    update = way.update(optimiser.step)

    def loss_of(images: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(images), labels)

    forward = way.function(loss_of)

    def learn(images: Tensor, labels: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss: Tensor = forward(images, labels)
        loss.backward()
        update()
        return loss.detach()

    return learn


@torch.no_grad()
def predictions(model: nn.Module, images: Tensor, way: Way) -> Tensor:
    """The digits that the model reads, on the host."""
    return model.eval()(images.to(way.device)).argmax(-1).cpu()


def table_of(lines: list[dict[str, Any]]) -> Table:
    """A row for each line; times faster are against the CPU on all its threads."""
    table = Table(title="An epoch of digits, 28²", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("with", no_wrap=True)
    for heading in ("epoch s", "step ms", "images/s", "to CPU", "first s", "loss", "right"):
        table.add_column(heading, justify="right", no_wrap=True)
    cpu = next((x["epoch_s"] for x in lines if x["way"] == "cpu" and "epoch_s" in x), None)
    for line in lines:
        seconds = line.get("epoch_s")
        table.add_row(
            line["way"],
            formatted(seconds, "{:.2f}") if line["status"] == "ok" else line["status"],
            formatted(line.get("step_ms"), "{:.2f}"),
            formatted(line.get("images_s"), "{:.0f}"),
            ratio(cpu, seconds),
            formatted(line.get("first_s"), "{:.1f}"),
            formatted(line.get("loss"), "{:.4f}"),
            formatted(line.get("accuracy"), "{:.1%}"),
        )
    return table


@click.command("mnist", help=__doc__.splitlines()[0])
@click.option("--ways", default=",".join(CONTENDERS), show_default=True)
@click.option(
    "--images", default=60000, show_default=True, type=click.IntRange((FIRST + 1) * digits.BATCH),
    help="As many as MNIST has.",
)  # fmt: skip
@click.option("--seconds", default=3600.0, show_default=True, help="Limit for a process.")
@options
def main(ways: str, images: int, seconds: float, device: str | None, output: Path | None) -> None:
    """The command."""
    names = possible(several(ways, known))
    with session("mnist", output, device) as here:
        for name in names:
            here.cell(name, {"way": name, "images": images}, Limits(seconds))
        here.show(
            table_of(here.lines.read()),
            f"Batches of {digits.BATCH}, Adam; each in a process of its own. The epoch without its "
            f"first {FIRST} steps, which compile from empty caches. Loss: mean of the last tenth "
            "of the steps. Right: of the held-out digits.",
        )
