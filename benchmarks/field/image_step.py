"""A step of training a network of images: forward, loss, backward, SGD with momentum."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.training import trainable
from benchmarks.ways import Way
from benchmarks.zoo import ALL

RATE, MOMENTUM = 1e-3, 0.9
#: As labels; every network here has more classes, or as many.
CLASSES = 10


def network(name: str, small: bool) -> nn.Module:
    """One of the zoo, ready to train, without dropout: all contenders have the same losses."""
    return trainable(ALL[name], small)


def batch_of(count: int, size: int) -> tuple[Tensor, Tensor]:
    """Images (count, 3, size, size) and labels (count,), always the same."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 3, size, size, generator=generator)
    return images, torch.randint(CLASSES, (count,), generator=generator)


def training_call(
    way: Way, model: nn.Module, images: Tensor, labels: Tensor
) -> Callable[[], Tensor]:
    """A function that makes one step on a copy of the model and gives the loss before it.

    The batch is on the way's device from the beginning, and the call waits for the step's end.
    """
    model = copy.deepcopy(model).to(way.device)
    images, labels = images.to(way.device), labels.to(way.device)
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    update = way.update(optimiser.step)

    def loss_of(images: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(images), labels)

    forward = way.function(loss_of)

    def step() -> Tensor:
        with torch.enable_grad(), way.context():
            optimiser.zero_grad()
            loss = forward(images, labels)
            loss.backward()
            update()
        way.wait()
        return loss.detach()

    return step


def inference_call(way: Way, model: nn.Module, images: Tensor) -> Callable[[], Tensor]:
    """A function that gives the model's results for the images, on the way's device."""
    model, images = copy.deepcopy(model).to(way.device).eval(), images.to(way.device)
    forward = way.function(model)

    def call() -> Tensor:
        with torch.no_grad(), way.context():
            result: Tensor = forward(images)
        way.wait()
        return result

    return call


@dataclass(frozen=True, slots=True)
class Started:
    """A contender that was called already.

    Attributes:
        seconds: of the first call, with compilation.
        values: the mean of each call's result; they can be compared.
        ocl_mib: the most memory of ``ocl`` tensors, less what there was before; None on the CPU.
    """

    call: Callable[[], Tensor]
    seconds: float
    values: list[float]
    ocl_mib: float | None


def started(way: Way, make: Callable[[], Callable[[], Tensor]], count: int) -> Started:
    """Make a contender, whose way is prepared, and call it ``count`` times."""
    before = way.memory_bytes(reset=True)
    call = make()
    start = time.perf_counter()
    results = [call()]
    seconds = time.perf_counter() - start
    results += [call() for _ in range(count - 1)]
    most = way.memory_bytes()
    mib = None if before is None or most is None else (most - before) / 2**20
    return Started(call, seconds, [result.mean().item() for result in results], mib)
