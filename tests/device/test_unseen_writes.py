"""Packed weights follow every write, however it was made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import compiled, random, two_drivers
from torch import nn
from torch._dynamo.utils import counters
from unseen_mappings import MAPPINGS
from unseen_optimisers import OPTIMISERS
from unseen_writes import OWNERS, SEEN_AT_ONCE, WAYS

from ocl_inductor.patches.process.written_pages import written_pages
from ocl_inductor.runtime.parameters import watch
from ocl_inductor.runtime.parameters.watch import LOOKS


class Product(nn.Module):
    """A weight with adjacent columns, which few rows read packed."""

    written = "weight"

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(300, 256) * 0.1, requires_grad=False)
        self.bias = nn.Parameter(torch.randn(256), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight + self.bias).relu()

    def example(self) -> torch.Tensor:
        return random(16, 300)


class Convolution(nn.Module):
    """A filter that is packed, with a batch norm folded."""

    written = "conv.weight"

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(32, 64, 3, padding=1)
        self.norm = nn.BatchNorm2d(64)
        self.eval().requires_grad_(False)
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)))

    def example(self) -> torch.Tensor:
        return random(1, 32, 12, 12)


def wrong(function: Callable[..., Any], model: nn.Module, x: torch.Tensor) -> bool:
    return not torch.allclose(function(model, x), model(x), rtol=1e-3, atol=1e-3)


def failures(
    kind: type[nn.Module],
    folder: Path,
    within: Callable[[str], int] = lambda way: 1,
    **options: Any,
) -> list[str]:
    """Ways whose writes are not seen ``within(way)`` calls, with one compiled model for all."""
    torch._dynamo.reset()
    function = compiled(lambda model, x: model(x), two_drivers()[0], **options)
    failed = []
    for number, (name, way) in enumerate((WAYS | MAPPINGS | OPTIMISERS).items()):
        if number % 12 == 0:  # values do not grow for ever, and parameters are usual ones again
            torch.manual_seed(number)
            model = kind()
            function(model, model.example())
        x = model.example()
        own = folder / name
        own.mkdir()
        if wrong(function, model, x):
            failed.append(f"before {name}")
        before = model(x)
        write = way(model, model.written, own)
        if write is not None:  # so far it was only moved
            for _ in range(2):
                if wrong(function, model, x):
                    failed.append(f"{name}: moved")
            before = model(x)
            write()
        if torch.allclose(before, model(x), rtol=1e-3, atol=1e-3):
            failed.append(f"{name} writes nothing")
        if all(wrong(function, model, x) for _ in range(within(name))):
            failed.append(name)
            model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()})
    OWNERS.clear()
    return failed


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that does not tell which pages were written."""
    monkeypatch.setattr(watch, "written_pages", lambda: None)


@pytest.mark.skipif(written_pages() is None, reason="the system does not tell written pages")
@pytest.mark.parametrize(
    ("kind", "memory"),
    [(Product, "unified"), (Convolution, "unified"), (Convolution, "discrete")],
)
def test_each_way(kind: type[nn.Module], memory: str, tmp_path: Path) -> None:
    assert failures(kind, tmp_path, memory=memory) == []
    assert counters["opencl"]["prologue_kernels"] > 0


def test_each_way_compared_whole(unwatched: None, tmp_path: Path) -> None:
    assert failures(Product, tmp_path, exact_weights=True) == []


def test_each_way_compared_in_turn(unwatched: None, tmp_path: Path) -> None:
    within = lambda way: 1 if way in SEEN_AT_ONCE else LOOKS  # noqa: E731
    assert failures(Convolution, tmp_path, within) == []
