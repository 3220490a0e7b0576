"""Batch norm in training where its traced graph is unusual: symbolic sizes, half types."""

from __future__ import annotations

import copy

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch import nn

each_driver = pytest.mark.parametrize("driver", two_drivers())


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))


@each_driver
def test_symbolic_batch(driver: str) -> None:
    """Its gradient divides by the batch size, a real number that only a call knows."""
    model = _model()
    function = compiled(model, driver, dynamic=True)
    for rows in (6, 11):
        x = random(rows, 8)
        reference = copy.deepcopy(model).double()
        model.zero_grad()
        reference.zero_grad()
        function(x).square().mean().backward()
        reference(x.double()).square().mean().backward()
        for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-6)


@each_driver
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(dtype: torch.dtype, driver: str) -> None:
    """PyTorch traces its statistics as float32, and eager keeps them in the half type."""
    model = _model().to(dtype)
    reference = copy.deepcopy(model).float()
    x = random(12, 8).to(dtype)
    compiled(model, driver)(x).square().mean().backward()
    reference(x.float()).square().mean().backward()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        assert ours.grad.dtype == dtype
        torch.testing.assert_close(ours.grad.float(), theirs.grad, rtol=0.1, atol=0.02)
    for ours, theirs in zip(model.buffers(), reference.buffers(), strict=True):
        torch.testing.assert_close(ours.float(), theirs.float(), rtol=0.02, atol=0.01)
