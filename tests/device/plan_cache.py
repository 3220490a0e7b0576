"""One cache folder for plans, and programs to compile against it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from agreement import two_drivers
from torch import nn
from torch._dynamo.utils import counters

DRIVER = two_drivers()[0]


class Cache:
    """Compiles afresh against one folder, and says what the cache did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, fn: Callable[..., Any], *args: Any, device: str = DRIVER, **options: Any) -> Any:
        """The result of the first call."""
        torch.compiler.reset()
        counters.clear()
        dynamic = options.pop("dynamic", False)
        options = {"device": device, "cache_dir": str(self.folder), **options}
        return torch.compile(fn, backend="opencl", dynamic=dynamic, options=options)(*args)

    @staticmethod
    def outcome() -> str:
        """``hit``, ``miss``, ``bypass`` or ``off``."""
        table = counters["opencl"]
        names = {"plan_hits": "hit", "plan_misses": "miss", "plan_bypasses": "bypass"}
        found = [what for name, what in names.items() if table[name]]
        assert len(found) <= 1, table
        return found[0] if found else "off"

    def same(self, fn: Callable[..., Any], *args: Any, **options: Any) -> str:
        """Compile, compare with eager, and say what the cache did."""
        result = self.run(fn, *args, **options)
        torch.testing.assert_close(result, fn(*args), rtol=1e-4, atol=1e-4)
        return self.outcome()

    def entries(self) -> list[Path]:
        return sorted(p for p in (self.folder / "plans").rglob("*") if p.is_file())


def program(x: torch.Tensor) -> torch.Tensor:
    return (x.softmax(-1) @ x.t()).cumsum(0)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu()


class Net(nn.Module):
    """With parameters, buffers that training writes, random numbers and several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm(x).relu()
        return self.head(self.drop(y)), y


def train(net: Net, cache: Cache | None, x: torch.Tensor, driver: str) -> tuple[list[Any], str]:
    """Two steps: losses, gradients and buffers."""
    torch.manual_seed(7)
    seen: list[Any] = []
    outcome = ""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(model: Callable[..., Any]) -> None:
        optimizer.zero_grad()
        logits, y = model(x)
        loss = logits.square().sum() + y.mean()
        loss.backward()
        seen.append(loss.detach().clone())
        seen.extend(p.grad.clone() for p in net.parameters() if p.grad is not None)
        seen.extend(b.clone() for b in net.buffers())
        optimizer.step()

    if cache is None:
        step(net), step(net)
    else:
        torch.compiler.reset()
        counters.clear()
        options = {"device": driver, "cache_dir": str(cache.folder)}
        model = torch.compile(net, backend="opencl", options=options)
        step(model), step(model)
        outcome = cache.outcome()
    return seen, outcome
