"""Scans against eager."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from evaluate import Harness, check, compare, make_device

from ocl_inductor.ir.nodes import Loop
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.reduce import blocked_scan
from ocl_inductor.settings import Settings

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


@pytest.mark.parametrize("length", [64, 90, 97])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_in_pieces(dim: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows and of columns, in pieces that divide them and that do not."""
    monkeypatch.setattr(blocked_scan, "MIN_ROW_PIECE", 8)
    monkeypatch.setattr(blocked_scan, "MIN_COLUMN_PIECE", 8)
    size = [2, 3, 2]
    size[dim] = length
    x = torch.randn(size)
    x[-1, -1, -1] = float("nan")
    whole = torch.randint(-9, 9, size)
    for op, y in ((aten.cumsum, x), (aten.cumprod, whole % 3 - 1), (aten.cummax, x),
                  (aten.cummin, whole), (aten.logcumsumexp, x.double())):  # fmt: skip
        harness = Harness()
        device = dataclasses.replace(make_device(), profile="simt")
        harness.ctx = LoweringContext(device, Settings())
        computed = harness.compute(harness.lower(op.default, y, dim))
        compare(computed, op.default(y, dim))
        scans = [n for n in harness.ctx.nodes if isinstance(n, Loop) and n.kind == "scan"]
        assert any(n.store_indirect for n in scans)
