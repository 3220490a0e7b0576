"""What ``test_ocl.py`` runs too: tensors on the device ``ocl`` that begin where no vector may."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import ocl_inductor.eager  # noqa: F401  (makes the device)
from ocl_inductor.runtime.memory.argument import Argument

Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_tensors_that_begin_anywhere(dtype: torch.dtype) -> None:
    """Kernels read vectors, which a GPU has only at multiples of their size."""
    base = (torch.randn(4100) * 9).to(dtype)
    weight = torch.randn(64, 64).to(dtype)

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2 + 1, x.float() @ w.float()

    run = torch.compile(function, backend="opencl", options={"fallback": "error"})
    there, other = base.to("ocl"), weight.to("ocl")
    for offset in (0, 1, 3, 4, 1, 0, 2):
        own = base[offset : offset + 4096].view(64, 64)
        results = run(there[offset : offset + 4096].view(64, 64), other)
        for got, want in zip(results, function(own, weight), strict=True):
            torch.testing.assert_close(got.cpu(), want, rtol=1e-2, atol=1e-3)


def test_tensors_that_begin_anywhere_and_are_written() -> None:
    base = torch.randn(4097)
    there = base.to("ocl")

    def add(x: Tensor) -> None:
        x.mul_(2).add_(x)

    run = torch.compile(add, backend="opencl", options={"fallback": "error"})
    for offset in (1, 0, 1):
        run(there[offset : offset + 4096])
        add(base[offset : offset + 4096])
        assert there.cpu().equal(base)
    there[1:].add_(1)  # and by an operator alone
    base[1:].add_(1)
    assert there.cpu().equal(base)


def test_a_training_step_makes_few_tensors_and_binds_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is saved is one allocation, and everything lies where it lay in the step before."""
    layers = [nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(6)]
    model = nn.Sequential(*layers)
    wide, there = copy.deepcopy(model).double(), model.to("ocl")
    run = torch.compile(there, backend="opencl", options={"fallback": "error"})
    bound: list[int] = []
    bind = Argument.bind

    def counted(self: Argument, pointer: int, *more: object) -> None:
        bound.append(pointer)
        bind(self, pointer, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Argument, "bind", counted)
    x = torch.randn(5, 16)
    other = x.to("ocl")
    made = 0
    for _ in range(6):
        there.zero_grad()
        bound.clear()
        before = torch.ocl.memory_stats()["allocation.all.allocated"]
        run(other).square().mean().backward()
        made = torch.ocl.memory_stats()["allocation.all.allocated"] - before
    wide(x.double()).square().mean().backward()
    for ours, theirs in zip(there.parameters(), wide.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.cpu().double(), theirs.grad, rtol=1e-4, atol=1e-6)
        assert ours.grad.storage_offset() == 0
    assert made <= len([*there.parameters()]) + 12
    # Of the operators around the graph; of the graph itself 50 would be.
    assert len(bound) <= 6
