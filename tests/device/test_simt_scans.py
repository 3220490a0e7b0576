"""Scans of the GPU profile: rows that a group scans, long ones in pieces, and columns."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers

import ocl_inductor
from ocl_inductor.device.facts import DeviceInfo

each_driver = pytest.mark.parametrize("driver", two_drivers())
each_device = pytest.mark.parametrize("units,items", [(2, 4096), (32, 64), (1, 16)])

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def _pretend(monkeypatch: pytest.MonkeyPatch, units: int, items: int, **facts: Any) -> None:
    """A device with so many compute units, and at most so many work-items in a group."""
    original = DeviceInfo.for_settings

    def changed(self: DeviceInfo, settings: Any) -> DeviceInfo:
        most = min(items, self.max_work_group_size)
        now = original(self, settings)
        return dataclasses.replace(now, compute_units=units, max_work_group_size=most, **facts)

    monkeypatch.setattr(DeviceInfo, "for_settings", changed)


def _everything(x: Any, i: Any, d: int) -> Any:
    return (
        x.cumsum(d), (x / 8 + 1).cumprod(d), x.cummax(d), x.cummin(d), x.logcumsumexp(d),
        i.cumsum(d), i.cummax(d),
    )  # fmt: skip


@each_device
@each_driver
@pytest.mark.parametrize("n", [64, 1000, 1031])
def test_rows(driver: str, n: int, units: int, items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, units, items)
    x, i = random(3, n), torch.randint(-9, 9, (3, n))
    x[1, n // 2] = float("nan")
    agree(lambda x, i: _everything(x, i, 1), x, i, device=driver, profile="simt")


@each_device
@each_driver
def test_columns(driver: str, units: int, items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole vectors of columns, others, and a dimension in the middle."""
    _pretend(monkeypatch, units, items)
    x, i = random(257, 8), random(256, 5)
    agree(lambda x, i: _everything(x, i, 0), x, i, device=driver, profile="simt")
    x, i = random(2, 500, 12), random(3, 90, 2)
    torch._dynamo.reset()
    agree(lambda x, i: _everything(x, i, 1), x, i, device=driver, profile="simt")


@each_driver
@pytest.mark.parametrize("memory", ["auto", "discrete"])
def test_long_rows(driver: str, memory: str) -> None:
    """Pieces that divide the row, in vectors and not, and a prime number of elements."""

    def fn(a: Any, b: Any, c: Any, d: Any) -> Any:
        return a.cumsum(0), b.cummax(0), c.cumsum(1), d.cumsum(0), d.cummin(0)

    whole = torch.randint(-(2**40), 2**40, (20_011,))
    inputs = random(1 << 16), random(4095 * 9), random(2, 20_011), whole
    agree(fn, *inputs, device=driver, profile="simt", memory=memory)
    options = {"device": driver, "profile": "simt"}
    report = ocl_inductor.explain(lambda x: x.cumsum(0), inputs[0], compile_options=options)
    assert len(report.graphs[0].kernels) == 3


@each_driver
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type(driver: str, dtype: torch.dtype) -> None:
    def fn(x: Any, y: Any) -> Any:
        return x.cumsum(1), x.cummax(1), y.cumsum(0), y.cummin(0), x.cumsum(0)

    x, y = (random(*size, dtype=dtype) for size in ((3, 200), (10_000,)))
    if dtype in (torch.float16, torch.bfloat16):
        x, y = x / 64, y / 64
    agree(fn, x, y, device=driver, profile="simt")


@each_driver
def test_without_fp64(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, 4, 256, fp64=False)
    x = random(30_000)
    agree(lambda x: x.cumsum(0), x, device=driver, profile="simt", atol=1e-3, rtol=1e-5)


@each_driver
def test_views(driver: str) -> None:
    def fn(x: Any) -> Any:
        return (
            x.t().cumsum(0), x.t().cumsum(1), x[:, ::2].cumsum(1), x[:, 1:].flip(1).cumsum(1),
            x[:1].expand(4, 512).cumsum(1), x.softmax(1).cumsum(1) + 1,
        )  # fmt: skip

    agree(fn, random(6, 512), device=driver, profile="simt")


@each_driver
def test_sizes_known_at_a_call_only(driver: str) -> None:
    def fn(x: Any) -> Any:
        return x.cumsum(0), x.cumsum(1), x.cummax(1)

    f = compiled(fn, driver, dynamic=True, profile="simt")
    for rows, columns in ((200, 64), (33, 1900), (1000, 3)):
        x = random(rows, columns)
        for ours, theirs in zip(
            torch.utils._pytree.tree_leaves(f(x)),
            torch.utils._pytree.tree_leaves(fn(x)),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)
