"""The demonstration that trains: what it calls a failure, and (slow) that drivers pass."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from benchmarks import digits
from benchmarks.demo_ocl import TITLES
from benchmarks.demo_training import problems, train_digits
from benchmarks.drivers import present_drivers
from benchmarks.learner import Record
from benchmarks.ways import possible


def record(name: str, losses: list[float], fallbacks: int = 0) -> Record:
    return Record(name, losses=losses, counters={"kernels": 1, "fallbacks": fallbacks})


def test_wrong_losses_accuracies_and_fallbacks_are_problems() -> None:
    eager = record("eager", [1.0, 0.1])
    assert problems(record("intel", [1.01, 0.1]), eager, 0.99) == []
    (problem,) = problems(record("intel", [1.0, 0.2]), eager, 0.99)
    assert "epoch 2" in problem
    (problem,) = problems(record("intel", [float("nan"), 0.1]), eager, 0.99)
    assert "epoch 1" in problem
    (problem,) = problems(record("intel", [1.0, 0.1]), eager, 0.96)
    assert "96.0%" in problem
    (problem,) = problems(record("intel", [1.0, 0.1], 2), eager, 0.99)
    assert "host" in problem


def test_everyone_sees_the_same_full_batches() -> None:
    data = digits.load()
    first, second = (list(digits.batches(data, 3)) for _ in range(2))
    assert len(first) == len(data.train_labels) // digits.BATCH
    for (images, labels), (others, wanted) in zip(first, second, strict=True):
        assert images.shape == (digits.BATCH, 1, 8, 8)
        assert torch.equal(images, others) and torch.equal(labels, wanted)
    assert not torch.equal(first[0][0], next(digits.batches(data, 4))[0])


@pytest.mark.slow
def test_drivers_learn_as_eager_does() -> None:
    drivers = present_drivers()
    if not drivers:
        pytest.skip("no OpenCL driver on this machine")
    console = Console(file=io.StringIO(), width=80)
    assert train_digits(console, drivers, ("eager",)), console.file.getvalue()
    names = [*drivers, *(TITLES[way] for way in possible(TITLES))]
    assert all(name in console.file.getvalue() for name in names)
