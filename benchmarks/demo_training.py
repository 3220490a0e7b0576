"""The demonstration's first part: a network learns to read digits, compiled and in eager mode.

Forward with loss, backward, and the optimiser's step run through the compiler; all contenders start
from the same weights and see the same batches, so that their losses can be compared.
"""

from __future__ import annotations

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import digits
from benchmarks.contenders import opencl, preload
from benchmarks.demo_ocl import learn_on_ocl
from benchmarks.learner import Learner, Record
from benchmarks.report import milliseconds, ratio
from benchmarks.steps import step
from ocl_inductor.sweep.process.child import short_message

EPOCHS = 12
MIN_ACCURACY = 0.97
#: An epoch's mean loss may differ from eager's by this share of it, plus this much: rounding grows
#: from step to step, and in the end the losses are small.
LOSS_SHARE, LOSS_FLOOR = 0.05, 0.005
SHOWN = 8  # digits drawn, in rows of four


def train_digits(
    console: Console,
    drivers: list[str],
    baselines: tuple[str, ...] = ("eager", "inductor"),
    epochs: int = EPOCHS,
) -> bool:
    """Train with all and compare; True if every driver learned as eager, the first one, did.

    The first driver is then the device ``ocl`` of further processes, which do the same with their
    tensors there.
    """
    console.rule("Learning to read handwritten digits")
    data = digits.load()
    learners, passed = start(console, data, drivers, baselines)
    there = dict(learn_on_ocl(console, drivers[0], epochs))
    passed &= None not in there.values()
    resident = [record for record in there.values() if record is not None]
    records = [*(learner.record for learner in learners), *resident]
    console.print(
        f"  mean loss over {len(data.train_labels)} scans, same weights and batches for all:"
    )
    names = [record.name for record in records]
    row(console, "epoch", names, names)
    for number in range(1, epochs + 1):
        if number > 1:
            shift = number % len(learners)
            for learner in learners[shift:] + learners[:shift]:
                learner.epoch(data, number)
        row(console, str(number), [f"{r.losses[number - 1]:.5f}" for r in records], names)
    for learner in learners:
        learner.read(data.test_images)
    right = {r.name: digits.accuracy(torch.tensor(r.reads), data.test_labels) for r in records}
    console.print(table_of(records, right))
    console.print(
        f"Right: of {len(data.test_labels)} held-out digits. Medians of {epochs - 1} epochs of "
        f"{len(data.train_labels) // digits.BATCH} steps, in turns: forward with loss, backward, "
        "Adam. “to …”: how many times faster OpenCL is. First step: compilation included. "
        f"“ocl …”: tensors on the device `ocl`, by {drivers[0]}, each in a process of its own.",
        highlight=False,
    )
    for record in records:
        if record.name not in (*drivers, *there):
            continue
        for problem in problems(record, records[0], right[record.name]):
            passed = False
            console.print(f"{record.name}: {problem}", style="red", markup=False)
    show(console, data, learners[-1].record.reads)
    return passed


def start(
    console: Console, data: digits.Digits, drivers: list[str], baselines: tuple[str, ...]
) -> tuple[list[Learner], bool]:
    """The first epoch of all, which compiles; those that could, and whether all drivers could."""
    learners, passed = [], True
    for contender in (*baselines, *map(opencl, drivers)):
        preload(contender)
        learner = Learner.of(contender)
        name = learner.record.name
        try:
            with step(console, f"first epoch, {name}"):
                learner.epoch(data, 1)
        except Exception as error:
            # Inductor needs a C++ compiler, which need not be there.
            console.print(f"  {name} failed: {short_message(error)}", style="red", markup=False)
            passed &= name not in drivers
            continue
        learners.append(learner)
    return learners, passed


def problems(found: Record, eager: Record, accuracy: float) -> list[str]:
    """What is wrong with how a driver learned, in words."""
    wrong = []
    for number, (loss, wanted) in enumerate(zip(found.losses, eager.losses, strict=True), 1):
        if not abs(loss - wanted) <= LOSS_SHARE * wanted + LOSS_FLOOR:
            wrong.append(f"the loss of epoch {number} is {loss:.5f}, eager's is {wanted:.5f}")
    if accuracy < MIN_ACCURACY:
        wrong.append(f"reads {accuracy:.1%} right, expected at least {MIN_ACCURACY:.0%}")
    if found.counters.get("fallbacks"):
        wrong.append(f"{found.counters['fallbacks']} operators ran on the host")
    return wrong


def row(console: Console, first: str, rest: list[str], names: list[str]) -> None:
    """A line of numbers under their names."""
    cells = (f"{x:>{max(9, len(name) + 2)}}" for x, name in zip(rest, names, strict=True))
    console.print(f"  {first:>5}" + "".join(cells), highlight=False)


def table_of(records: list[Record], right: dict[str, float]) -> Table:
    """One row a contender: time for an epoch, against eager and Inductor, and what it learned."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("trained with", no_wrap=True)
    for heading in (
        "epoch\nms", "to\neager", "to In-\nduct.", "right", "ker-\nnels", "fall-\nbacks",
        "first\nstep s",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    medians = {record.name: record.epoch_median_ms for record in records}
    for record in records:
        ours = record.name not in ("eager", "inductor")
        compiled = ours and "kernels" in record.counters
        ms = medians[record.name]
        table.add_row(
            record.name,
            milliseconds(ms),
            ratio(medians.get("eager"), ms) if ours else "",
            ratio(medians.get("inductor"), ms) if ours else "",
            f"{right[record.name]:.1%}",
            str(record.counters["kernels"]) if compiled else "",
            str(record.counters.get("fallbacks", 0)) if compiled else "",
            f"{record.first_step_s:.1f}",
        )
    return table


def show(console: Console, data: digits.Digits, reads: list[int]) -> None:
    """Some held-out digits with what the network reads."""
    labels = data.test_labels[:SHOWN].tolist()
    captions = [
        f"reads {guess}" if guess == label else f"reads {guess}, is {label}"
        for guess, label in zip(reads[:SHOWN], labels, strict=True)
    ]
    shades = " ░▒▓█" if console.encoding.startswith("utf") else " .:*#"
    console.print()
    console.print(
        digits.gallery(data.test_images[:SHOWN], captions, 4, shades),
        highlight=False,
        markup=False,
    )
