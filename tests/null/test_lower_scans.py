"""Scans against eager."""

from __future__ import annotations

import pytest
import torch
from evaluate import check

import ocl_inductor.lowering.scans  # noqa: F401

aten = torch.ops.aten


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_running(dim: int) -> None:
    x = torch.randn(3, 4, 5)
    for y in (x, x.movedim(0, -1).contiguous().movedim(-1, 0), x > 0, x.int(), x.double()):
        check(aten.cumsum.default, y, dim)
        check(aten.cumprod.default, y, dim)
        check(aten.cumsum.default, y, dim, dtype=torch.float32)
    half = torch.randn(3, 4, 5).half()
    check(aten.cumsum.default, half, dim, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dim", [0, -1])
def test_running_extrema(dim: int) -> None:
    x = torch.randint(0, 4, (7, 9)).float()
    x[3, 4] = x[5, 5] = float("nan")
    for y in (x, x.T, x.nan_to_num().int(), x > 1):
        check(aten.cummax.default, y, dim)
        check(aten.cummin.default, y, dim)


def test_small() -> None:
    for op in (aten.cumsum, aten.cumprod, aten.cummax):
        check(op.default, torch.tensor(2.0), 0)
        check(op.default, torch.randn(3, 1), 1)
        check(op.default, torch.randn(0, 4), 1)
    check(aten.cumsum.default, torch.ones(2, 3, dtype=torch.bool), 1)
