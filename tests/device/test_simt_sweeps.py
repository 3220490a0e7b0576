"""Reductions of the GPU profile: rows that a group sweeps, columns side by side, two stages."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from torch import nn
from torch.nn import functional as F

import ocl_inductor
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.lowering.reduce import two_stages

each_driver = pytest.mark.parametrize("driver", two_drivers())
each_device = pytest.mark.parametrize("units,items", [(1, 4096), (32, 4096), (32, 64), (4, 16)])

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool,
)  # fmt: skip


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def _pretend(monkeypatch: pytest.MonkeyPatch, units: int, items: int) -> None:
    """A device with so many compute units, and at most so many work-items in a group."""
    original = DeviceInfo.for_settings

    def changed(self: DeviceInfo, settings: Any) -> DeviceInfo:
        most = min(items, self.max_work_group_size)
        facts = original(self, settings)
        return dataclasses.replace(facts, compute_units=units, max_work_group_size=most)

    monkeypatch.setattr(DeviceInfo, "for_settings", changed)


def _close(fn: Any, *inputs: torch.Tensor, **options: Any) -> None:
    agree(fn, *inputs, profile="simt", rtol=1e-4, atol=1e-3, **options)


@each_device
@each_driver
def test_columns(driver: str, units: int, items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a whole number of vectors and not, of few columns, and several results of one sweep."""
    _pretend(monkeypatch, units, items)

    def fn(x: Any, y: Any, z: Any) -> Any:
        return (
            x.sum(0), (x * 2).amax(0), x.argmin(0), x.mean(0), y.sum(0), y.argmax(0), z.sum(0),
            z.var(0), x - x.mean(0), y.softmax(0), (x > 2).any(0),
        )  # fmt: skip

    inputs = random(301, 96), random(150, 37), random(777, 8)
    _close(fn, *inputs, device=driver, memory="discrete")


@each_driver
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type(driver: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, 32, 4096)

    def fn(x: Any) -> Any:
        rows, columns = (x.sum(d) for d in (1, 0))
        places = () if dtype is torch.bool else (x.argmax(0), x.argmin(1))
        return rows, columns, x.amax(0), x.amin(1), x.bool().all(0), places

    x = (random(161, 160, dtype=torch.float32) / 4).to(dtype)
    tolerance = 1e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-4
    agree(fn, x, device=driver, profile="simt", rtol=tolerance, atol=10 * tolerance)


@each_device
@each_driver
def test_batch_norm(driver: str, units: int, items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, units, items)

    def fn(x: Any, y: Any, z: Any) -> Any:
        return tuple(F.batch_norm(t, None, None, training=True) for t in (x, y, z))

    channels_last = torch.channels_last
    x, y = random(4, 12, 20, 12), random(4, 12, 20, 12).to(memory_format=channels_last)
    z = random(3, 5, 7, 11).to(memory_format=channels_last)
    _close(fn, x, y, z, device=driver)


@each_device
@each_driver
def test_rows(driver: str, units: int, items: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, units, items)

    def fn(x: Any, y: Any) -> Any:
        return (
            x.softmax(-1), F.layer_norm(x, (640,)), y.softmax(-1), y.argmax(1), x.argmax(1),
            x.flatten().sum(), y.flatten().prod(), x.logsumexp(0), (x + x.flip(1)).sum(1),
        )  # fmt: skip

    _close(fn, random(5, 640), random(3, 1001).clamp(0.99, 1.01), device=driver)


@each_driver
def test_two_stages(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of matrices and of images that are cut, in one of their dimensions or along some."""
    _pretend(monkeypatch, 4, 4096)
    monkeypatch.setattr(two_stages, "MIN_LONG_COLUMN", 1000)

    def fn(x: Any, image: Any, whole: Any) -> Any:
        return (
            x.sum(0), x.amax(0), (x * x).mean(0), image.sum((0, 2, 3)), image.var((0, 2, 3)),
            whole.sum(0), whole.prod(0),
        )  # fmt: skip

    image = random(6, 40, 30, 20).to(memory_format=torch.channels_last)
    inputs = random(1501, 36), image, torch.randint(-2, 3, (2000, 20))
    _close(fn, *inputs, device=driver)
    report = ocl_inductor.explain(
        lambda x: x.sum(0), inputs[0], compile_options={"device": driver, "profile": "simt"}
    )
    assert len(report.graphs[0].kernels) == 2


@each_driver
def test_sizes_known_at_a_call_only(driver: str) -> None:
    def fn(x: Any) -> Any:
        return x.sum(0), x.sum(1), x.softmax(1), x.softmax(0), x.argmax(0)

    f = compiled(fn, driver, dynamic=True, profile="simt")
    for rows, columns in ((200, 64), (33, 190), (1000, 3), (2, 129)):
        x = random(rows, columns)
        for ours, theirs in zip(f(x), fn(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@each_driver
def test_what_is_read_may_be_written(driver: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        x.copy_(x.softmax(1))
        y.sub_(y.mean(0))

    _close(fn, random(9, 512), random(512, 33), device=driver, memory="discrete")


@each_driver
def test_extremes_that_are_not_numbers(driver: str) -> None:
    x = random(200, 40)
    x[17, 3] = x[150, 3] = float("nan")
    x[:, 5] = -float("inf")
    x[:, 7] = 1.0

    def fn(x: Any) -> Any:
        return x.argmax(0), x.argmin(0), x.amax(0), x.t().argmax(1), x.flatten().argmax()

    agree(fn, x, device=driver, profile="simt")


@each_driver
def test_rows_that_are_kept(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row is made of is read once, in vectors and not, from several operands, in place."""
    _pretend(monkeypatch, 1, 4096)

    def fn(x: Any, y: Any, h: Any, flags: Any, w: Any) -> Any:
        scores = torch.where(flags, x * 2, y)
        y.copy_(F.layer_norm(y, (1024,), w, w))
        return (
            x.softmax(1),
            scores.softmax(1),
            h.softmax(1),
            h.var(1),
            (x[:, :320] + 1).log_softmax(1),
        )

    x, y, flags = random(7, 1024), random(7, 1024), random(7, 1024, dtype=torch.bool)
    inputs = x, y, random(5, 259, dtype=torch.float16), flags, random(1024)
    agree(fn, *inputs, device=driver, profile="simt")
    options = {"device": driver, "profile": "simt"}
    report = ocl_inductor.explain(lambda x: x.softmax(1), x, compile_options=options)
    source = report.graphs[0].kernels[0].source
    assert source.count("arg0 +") == 1 and "kept0[k]" in source


@each_device
@each_driver
def test_running_statistics(
    driver: str, units: int, items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written where they are: by one work-item, of rows, of columns and in two stages."""
    _pretend(monkeypatch, units, items)
    cases = (
        (nn.BatchNorm1d(37), (150, 37)),
        (nn.BatchNorm1d(8), (5000, 8)),
        (nn.BatchNorm2d(3), (2, 3, 90, 50)),
        (nn.BatchNorm2d(33), (4, 33, 7, 5)),
        (nn.BatchNorm1d(1), (3001, 1)),
    )
    norms = nn.ModuleList(norm for norm, _ in cases)
    wide = copy.deepcopy(norms).double()

    def fn(inputs: list[torch.Tensor], norms: nn.ModuleList) -> list[torch.Tensor]:
        return [norm(x) for norm, x in zip(norms, inputs, strict=True)]

    call = compiled(fn, driver, profile="simt", memory="discrete", verify=True)
    for _ in range(3):
        inputs = [random(*size) * 2 + 3 for _, size in cases]
        found, right = call(inputs, norms), fn([x.double() for x in inputs], wide)
        for ours, theirs in zip(found, right, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)
        for ours, theirs in zip(norms.buffers(), wide.buffers(), strict=True):
            torch.testing.assert_close(ours.to(theirs.dtype), theirs, rtol=1e-5, atol=1e-6)
