"""Reductions of large matrices to their columns, which go block by block of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from agreement import agree, random, two_drivers

from ocl_inductor.device.cpu.caches import Caches
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.reduce import two_stages

each_driver = pytest.mark.parametrize("driver", two_drivers())


def _columns(x: Any, y: Any, image: Any, whole: Any) -> Any:
    dims = (0, 2, 3)
    centred = image - image.mean(dims, keepdim=True)
    return x.sum(0), (x * y).sum(0), x.amax(0), image.sum(dims), centred.square().sum(dims), (
        whole.sum(0), (whole > 3).any(0), whole.double().prod(0),
    )  # fmt: skip


@each_driver
def test_columns_of_large_matrices(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, real = [], two_stages._blocks_of_rows
    caches = Caches(l2=1 << 16)

    def counting(ctx: LoweringContext, *args: Any) -> int:
        """As on a processor with small caches."""
        device = ctx.device
        ctx.device = replace(device, caches=caches)
        blocks.append(real(ctx, *args))
        ctx.device = device
        return blocks[-1]

    monkeypatch.setattr(two_stages, "_blocks_of_rows", counting)
    # A prime number of rows, and columns that fill no whole number of registers.
    x, y = random(1103, 37), random(1103, 37)
    image = random(3, 21, 34, 17).to(memory_format=torch.channels_last)
    whole = torch.randint(-5, 5, (601, 40))
    agree(_columns, x, y, image, whole, device=driver, profile="vector", rtol=1e-4, atol=1e-3)
    assert sum(map(bool, blocks)) >= 5


@pytest.mark.slow
@each_driver
def test_columns_of_large_matrices_as_they_come(driver: str) -> None:
    def fn(x: Any, image: Any) -> Any:
        dims = (0, 2, 3)
        mean = image.mean(dims, keepdim=True)
        return x.sum(0), (image - mean).square().sum(dims), image.relu() - mean

    image = random(4, 64, 56, 56).to(memory_format=torch.channels_last)
    agree(fn, random(1103, 770), image, device=driver, profile="vector", rtol=1e-4, atol=1e-3)
