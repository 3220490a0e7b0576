"""The demonstration's first part: a network learns to read digits, compiled and in eager mode.

Forward with loss, backward, and the optimiser's step run through the compiler; all contenders start
from the same weights and see the same batches, so that their losses can be compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch._dynamo.utils import counters

from benchmarks import digits
from benchmarks.contenders import device_of, opencl, preload, prepare
from benchmarks.report import milliseconds, ratio
from benchmarks.steps import step
from benchmarks.worker import opencl_counters
from ocl_inductor.sweep.performance.timing import SETTLE_SECONDS
from ocl_inductor.sweep.process.child import short_message

EPOCHS = 12
MIN_ACCURACY = 0.97
#: An epoch's mean loss may differ from eager's by this share of it, plus this much: rounding grows
#: from step to step, and in the end the losses are small.
LOSS_SHARE, LOSS_FLOOR = 0.05, 0.005
SHOWN = 8  # digits drawn, in rows of four


@dataclass(slots=True)
class Learner:
    """One contender's network, optimiser and results."""

    name: str
    model: nn.Module
    optimiser: torch.optim.Optimizer
    loss_of: Callable[..., Any]
    update: Callable[..., Any]
    first_step_s: float = 0.0
    losses: list[float] = field(default_factory=list)
    epoch_ms: list[float] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(contender: str) -> Learner:
        """Ready to learn; nothing is compiled yet."""
        model = digits.network().train()
        optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)

        def loss_of(images: Tensor, labels: Tensor) -> Tensor:
            return nn.functional.cross_entropy(model(images), labels)

        return Learner(
            device_of(contender),
            model,
            optimiser,
            prepare(contender, loss_of),
            prepare(contender, optimiser.step),
        )

    def learn(self, images: Tensor, labels: Tensor) -> Tensor:
        """One step of training; the loss before it."""
        self.optimiser.zero_grad()
        loss: Tensor = self.loss_of(images, labels)
        loss.backward()
        self.update()
        return loss.detach()

    def epoch(self, data: digits.Digits, number: int) -> None:
        """All batches once; the very first one is timed for itself, as it compiles."""
        losses, given = [], digits.batches(data, number)
        if number == 1:
            counters.clear()
            start = time.perf_counter()
            losses.append(self.learn(*next(given)))
            self.first_step_s = time.perf_counter() - start
            self.counters = opencl_counters()
        # Threads of the contender before spin for a while after their last work.
        time.sleep(SETTLE_SECONDS)
        start = time.perf_counter()
        losses += [self.learn(images, labels) for images, labels in given]
        self.epoch_ms.append((time.perf_counter() - start) * 1e3)
        self.losses.append(torch.stack(losses).mean().item())

    @torch.no_grad()
    def predictions(self, images: Tensor) -> Tensor:
        self.model.eval()
        return self.model(images).argmax(-1)

    @property
    def epoch_median_ms(self) -> float:
        return statistics.median(self.epoch_ms[1:])


def train_digits(
    console: Console, drivers: list[str], baselines: tuple[str, ...] = ("eager", "inductor")
) -> bool:
    """Train with all and compare; True if every driver learned as eager, the first one, did."""
    console.rule("Learning to read handwritten digits")
    data = digits.load()
    learners, passed = start(console, data, drivers, baselines)
    console.print(
        f"  mean loss over {len(data.train_labels)} scans, same weights and batches for all:"
    )
    row(console, "epoch", [learner.name for learner in learners])
    for number in range(1, EPOCHS + 1):
        if number > 1:
            shift = number % len(learners)
            for learner in learners[shift:] + learners[:shift]:
                learner.epoch(data, number)
        row(console, str(number), [f"{learner.losses[-1]:.5f}" for learner in learners])
    eager = learners[0]
    read = {learner.name: learner.predictions(data.test_images) for learner in learners}
    right = {name: digits.accuracy(found, data.test_labels) for name, found in read.items()}
    console.print(table_of(learners, right))
    console.print(
        f"Right: of {len(data.test_labels)} held-out digits. Medians of {EPOCHS - 1} epochs of "
        f"{len(data.train_labels) // digits.BATCH} steps, in turns: forward with loss, backward, "
        "Adam. “to …”: how many times faster OpenCL is. First step: compilation included.",
        highlight=False,
    )
    for learner in learners:
        if learner.name not in drivers:
            continue
        for problem in problems(learner, eager, right[learner.name]):
            passed = False
            console.print(f"{learner.name}: {problem}", style="red", markup=False)
    show(console, data, read[learners[-1].name])
    return passed


def start(
    console: Console, data: digits.Digits, drivers: list[str], baselines: tuple[str, ...]
) -> tuple[list[Learner], bool]:
    """The first epoch of all, which compiles; those that could, and whether all drivers could."""
    learners, passed = [], True
    for contender in (*baselines, *map(opencl, drivers)):
        preload(contender)
        learner = Learner.of(contender)
        try:
            with step(console, f"first epoch, {learner.name}"):
                learner.epoch(data, 1)
        except Exception as error:
            # Inductor needs a C++ compiler, which need not be there.
            console.print(
                f"  {learner.name} failed: {short_message(error)}", style="red", markup=False
            )
            passed &= learner.name not in drivers
            continue
        learners.append(learner)
    return learners, passed


def problems(learner: Learner, eager: Learner, accuracy: float) -> list[str]:
    """What is wrong with how a driver learned, in words."""
    found = []
    for number, (loss, wanted) in enumerate(zip(learner.losses, eager.losses, strict=True), 1):
        if not abs(loss - wanted) <= LOSS_SHARE * wanted + LOSS_FLOOR:
            found.append(f"the loss of epoch {number} is {loss:.5f}, eager's is {wanted:.5f}")
    if accuracy < MIN_ACCURACY:
        found.append(f"reads {accuracy:.1%} right, expected at least {MIN_ACCURACY:.0%}")
    if learner.counters.get("fallbacks"):
        found.append(f"{learner.counters['fallbacks']} operators ran on the host")
    return found


def row(console: Console, first: str, rest: list[str]) -> None:
    console.print(f"  {first:>5}" + "".join(f"{x:>12}" for x in rest), highlight=False)


def table_of(learners: list[Learner], right: dict[str, float]) -> Table:
    """One row a contender: time for an epoch, against eager and Inductor, and what it learned."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("trained with", no_wrap=True)
    for heading in (
        "epoch\nms", "to\neager", "to In-\nduct.", "right", "ker-\nnels", "fall-\nbacks",
        "first\nstep s",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    medians = {learner.name: learner.epoch_median_ms for learner in learners}
    for learner in learners:
        ours = bool(learner.counters)
        ms = medians[learner.name]
        table.add_row(
            learner.name,
            milliseconds(ms),
            ratio(medians.get("eager"), ms) if ours else "",
            ratio(medians.get("inductor"), ms) if ours else "",
            f"{right[learner.name]:.1%}",
            str(learner.counters["kernels"]) if ours else "",
            str(learner.counters.get("fallbacks", 0)) if ours else "",
            f"{learner.first_step_s:.1f}",
        )
    return table


def show(console: Console, data: digits.Digits, predictions: Tensor) -> None:
    """Some held-out digits with what the network reads."""
    labels = data.test_labels[:SHOWN].tolist()
    captions = [
        f"reads {guess}" if guess == label else f"reads {guess}, is {label}"
        for guess, label in zip(predictions[:SHOWN].tolist(), labels, strict=True)
    ]
    shades = " ░▒▓█" if console.encoding.startswith("utf") else " .:*#"
    console.print()
    console.print(
        digits.gallery(data.test_images[:SHOWN], captions, 4, shades),
        highlight=False,
        markup=False,
    )
