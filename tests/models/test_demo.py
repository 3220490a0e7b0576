"""The demonstration that trains: what it calls a failure, and (slow) that drivers pass."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from benchmarks import digits
from benchmarks.demo_training import Learner, problems, train_digits
from benchmarks.drivers import present_drivers


def learner(name: str, losses: list[float], fallbacks: int = 0) -> Learner:
    made = Learner.of("eager")
    made.name, made.losses, made.counters = name, losses, {"kernels": 1, "fallbacks": fallbacks}
    return made


def test_wrong_losses_accuracies_and_fallbacks_are_problems() -> None:
    eager = learner("eager", [1.0, 0.1])
    assert problems(learner("intel", [1.01, 0.1]), eager, 0.99) == []
    (problem,) = problems(learner("intel", [1.0, 0.2]), eager, 0.99)
    assert "epoch 2" in problem
    (problem,) = problems(learner("intel", [float("nan"), 0.1]), eager, 0.99)
    assert "epoch 1" in problem
    (problem,) = problems(learner("intel", [1.0, 0.1]), eager, 0.96)
    assert "96.0%" in problem
    (problem,) = problems(learner("intel", [1.0, 0.1], 2), eager, 0.99)
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
    assert all(driver in console.file.getvalue() for driver in drivers)
