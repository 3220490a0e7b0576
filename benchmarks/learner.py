"""A network that learns to read digits, and what is noted about it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from benchmarks import digits
from benchmarks.contenders import device_of, prepare
from benchmarks.ways import WAYS, Way
from benchmarks.worker import opencl_counters
from ocl_inductor.sweep.performance.timing import SETTLE_SECONDS


@dataclass(slots=True)
class Record:
    """What came out so far.

    Attributes:
        name: as in the table.
        first_step_s: seconds of the first step, which compiles.
        losses: the mean of each epoch.
        epoch_ms: milliseconds of each epoch, of the first one without its first step.
        counters: the backend's after the first step; empty where it had no part in it.
        reads: the digits that it reads in the held-out scans, once it has learned.
    """

    name: str
    first_step_s: float = 0.0
    losses: list[float] = field(default_factory=list)
    epoch_ms: list[float] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    reads: list[int] = field(default_factory=list)

    @property
    def epoch_median_ms(self) -> float:
        return statistics.median(self.epoch_ms[1:])


@dataclass(slots=True)
class Learner:
    """One contender's network, optimiser and record."""

    record: Record
    model: nn.Module
    optimiser: torch.optim.Optimizer
    loss_of: Callable[..., Any]
    update: Callable[..., Any]
    way: Way

    @staticmethod
    def of(contender: str) -> Learner:
        """Ready to learn with tensors of the CPU; nothing is compiled yet."""
        compile_ = partial(prepare, contender)
        return _made(Record(device_of(contender)), WAYS["cpu"], compile_, compile_)

    @staticmethod
    def on(way: Way) -> Learner:
        """The same in one of the ways, which is prepared."""
        return _made(Record(way.name), way, way.function, way.update)

    def learn(self, images: Tensor, labels: Tensor) -> Tensor:
        """One step of training; the loss before it."""
        self.optimiser.zero_grad()
        loss: Tensor = self.loss_of(images.to(self.way.device), labels.to(self.way.device))
        loss.backward()
        self.update()
        return loss.detach()

    def epoch(self, data: digits.Digits, number: int) -> None:
        """All batches once; the very first one is timed for itself, as it compiles."""
        record = self.record
        losses, given = [], digits.batches(data, number)
        if number == 1:
            counters.clear()
            start = time.perf_counter()
            losses.append(self.learn(*next(given)))
            self.way.wait()
            record.first_step_s = time.perf_counter() - start
            record.counters = opencl_counters()
        # Threads of the contender before spin for a while after their last work.
        time.sleep(SETTLE_SECONDS)
        start = time.perf_counter()
        losses += [self.learn(images, labels) for images, labels in given]
        self.way.wait()
        record.epoch_ms.append((time.perf_counter() - start) * 1e3)
        record.losses.append(torch.stack(losses).mean().item())

    @torch.no_grad()
    def read(self, images: Tensor) -> None:
        """Note what it reads in scans."""
        self.model.eval()
        self.record.reads = self.model(images.to(self.way.device)).argmax(-1).tolist()


def _made(
    record: Record,
    way: Way,
    forward: Callable[[Callable[..., Any]], Callable[..., Any]],
    update: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Learner:
    """One whose loss and optimiser go through the two functions."""
    model = digits.network().to(way.device).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss_of(images: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(images), labels)

    return Learner(record, model, optimiser, forward(loss_of), update(optimiser.step), way)
