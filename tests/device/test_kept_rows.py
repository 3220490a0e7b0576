"""Rows that one sweep makes of several vectors and keeps for the next (row_cache.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, random, two_drivers
from torch.nn import functional as F

import ocl_inductor

each_driver = pytest.mark.parametrize("driver", two_drivers())


def program(
    x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, w: torch.Tensor, b: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    row = x.shape[-1:]
    normal = F.layer_norm(x, row, w, b)
    summed = F.layer_norm(x + y * z, row, w, b)
    # The sum of three lies below a function and beside it; the product under a condition.
    return normal.softmax(-1), summed, (x + y * z).log_softmax(-1) + torch.where(x > 0, z, w * b)


def inputs(rows: int, columns: int, dtype: torch.dtype) -> list[torch.Tensor]:
    wide = [random(rows, columns, dtype=dtype) for _ in range(3)]
    return [*wide, random(columns, dtype=dtype), random(columns, dtype=dtype)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("columns", [1, 7, 37, 100, 1024])
@each_driver
def test_rows(driver: str, columns: int, dtype: torch.dtype) -> None:
    agree(program, *inputs(5, columns, dtype), device=driver)


@each_driver
def test_gradients(driver: str) -> None:
    leaves = [x.requires_grad_() for x in inputs(6, 100, torch.float32)]

    def gradients(*xs: torch.Tensor) -> Any:
        loss = sum((y * y).sum() for y in program(*xs))
        return torch.autograd.grad(loss, xs)

    compiled = torch.compile(program, backend="opencl", options={"device": driver})
    loss = sum((y * y).sum() for y in compiled(*leaves))
    wide = [x.detach().double().requires_grad_() for x in leaves]
    found = torch.autograd.grad(loss, leaves)
    for got, want in zip(found, gradients(*wide), strict=True):
        scale = float(want.abs().max())
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=2e-5 * scale)


@each_driver
def test_the_row_is_kept(driver: str) -> None:
    options = {"device": driver, "cache": False, "profile": "vector"}
    xs = inputs(64, 1024, torch.float32)
    report = ocl_inductor.explain(program, *xs, compile_options=options)
    assert any("kept0" in k.source for graph in report.graphs for k in graph.kernels)
