"""Models small enough for a sweep in a test, and models that fail in each way a model can."""

from __future__ import annotations

import os
import signal
import time

import torch
from torch import nn


class Small(nn.Module):
    """A perceptron with a batch norm, so that training has buffers to compare."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(8, width)
        self.norm = nn.BatchNorm1d(width)
        self.second = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.norm(self.first(x))))


class Pointwise(nn.Module):
    """Takes a tensor of any size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * x


class WrongWhenCompiled(Small):
    """Stands for a compiler's mistake: adds a little when it is compiled."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        return result + 0.01 if torch.compiler.is_compiling() else result


class Unsteady(nn.Module):
    """Differs from call to call, which no seed prevents."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + time.perf_counter_ns() % 1_000_003


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such 42 thing")


class Crashes(nn.Module):
    """The process ends with a signal, as in a driver's mistake."""

    def __init__(self, only_compiled: bool = False) -> None:
        super().__init__()
        self.only_compiled = only_compiled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.only_compiled or torch.compiler.is_compiling():
            crash()
        return x + 1


@torch.compiler.disable
def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


class Hangs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(600)
        return x


class Greedy(nn.Module):
    """Takes 2 GiB and holds it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = torch.ones(2**29)
        time.sleep(600)
        return x + held[0]


def broken() -> nn.Module:
    raise ValueError("cannot be built")
