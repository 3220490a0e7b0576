"""Pointwise kernels of the GPU profile: vectors of neighbours, points that lie apart, small groups.

In place on host memory a tensor begins at any element; in the device's own memory vectors are
aligned, and said to be.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from torch.nn import functional as F

import ocl_inductor
from ocl_inductor.device.facts import DeviceInfo

each_driver = pytest.mark.parametrize("driver", two_drivers())
each_memory = pytest.mark.parametrize("memory", ["auto", "discrete"])

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that a thousand points fill."""
    torch._dynamo.reset()
    original = DeviceInfo.for_settings

    def small(self: DeviceInfo, settings: Any) -> DeviceInfo:
        return dataclasses.replace(original(self, settings), compute_units=1)

    monkeypatch.setattr(DeviceInfo, "for_settings", small)


def _source(program: object, *inputs: torch.Tensor, **options: object) -> str:
    options = {"profile": "simt", **options}
    report = ocl_inductor.explain(program, *inputs, compile_options=options)
    return "\n".join(k.source for graph in report.graphs for k in graph.kernels)


@each_memory
@each_driver
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type(driver: str, memory: str, dtype: torch.dtype) -> None:
    """As a whole number of vectors, as a multiple of three, and as a prime number of elements."""

    def fn(x: Any, y: Any, z: Any) -> Any:
        return torch.where(x > y, x, y), x == y, z.bool(), z.flip(0)

    for n in (4096, 3 * 1001, 4099):
        x, y, z = (random(n, dtype=dtype) for _ in range(3))
        agree(fn, x, y, z, device=driver, profile="simt", memory=memory)


@each_memory
@each_driver
def test_tensors_that_begin_at_any_element(driver: str, memory: str) -> None:
    x, h = random(5000)[1:4097], random(5000, dtype=torch.float16)[3:4099]
    agree(lambda x, h: (x * 2 + h, h.sin()), x, h, device=driver, profile="simt", memory=memory)


@each_memory
@each_driver
def test_views(driver: str, memory: str) -> None:
    """Strided, expanded, shifted by one element, padded, concatenated, gathered."""

    def fn(x: Any, row: Any, column: Any, index: Any) -> Any:
        return (
            x + row, x * column, x.t() + 1, x[:, ::2] * 2, x[:, 1:] + x[:, :-1], x[1:, 4:] - 1,
            F.pad(x, (1, 2, 3, 0)), torch.cat([x, x[:, :36].exp(), x], 1), x[index] + 1,
            x[:, index], row.expand(48, 96).contiguous(), x + torch.arange(96),
        )  # fmt: skip

    x, index = random(48, 96), torch.randint(0, 48, (40,))
    inputs = (x, random(96), random(48, 1), index)
    agree(fn, *inputs, device=driver, profile="simt", memory=memory)


@each_memory
@each_driver
def test_images(driver: str, memory: str) -> None:
    """Numbers of a channel, in planes that are a whole number of vectors, and that are not."""

    def fn(x: Any, y: Any, bias: Any) -> Any:
        bias = bias[:, None, None]
        return F.relu(x + bias), y * bias, F.max_pool2d(x, 2), y.sum(2), x.amax(1), x.argmax(1)

    x, y = random(3, 8, 12, 16), random(3, 8, 7, 7)
    agree(fn, x, y, random(8), device=driver, profile="simt", memory=memory)


@each_driver
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_transposes(driver: str, dtype: torch.dtype) -> None:
    """Through local memory: whole squares and parts, one operand and several, in images."""

    def fn(x: Any, y: Any, image: Any) -> Any:
        last = image.to(memory_format=torch.channels_last)
        return x.t().contiguous(), torch.where(x.t() > y, y, x.t()), last, x.permute(1, 0).flatten()

    sizes = ((160, 128), (128, 160), (2, 64, 16, 16)), ((131, 150), (150, 131), (3, 33, 13, 17))
    for x, y, image in sizes:
        inputs = (random(*size, dtype=dtype) for size in (x, y, image))
        agree(fn, *inputs, device=driver, profile="simt")


@each_driver
def test_transposes_beside_other_accesses(driver: str) -> None:
    def fn(x: Any, y: Any, row: Any, index: Any) -> Any:
        padded = F.pad(y, (3, 0, 0, 2))[:150, :131]
        return x.t() * y + row, x.t() + padded, x.t()[index] - row, (x + 1).t() * x.t().exp()

    index = torch.randint(0, 150, (150,))
    inputs = random(131, 150), random(150, 131), random(131), index
    agree(fn, *inputs, device=driver, profile="simt", memory="discrete")


@each_memory
@each_driver
def test_sizes_known_at_a_call_only(driver: str, memory: str) -> None:
    def fn(x: Any, row: Any) -> Any:
        return x * row + 1, x.t() + 1

    f = compiled(fn, driver, dynamic=True, profile="simt", memory=memory)
    for rows, columns in ((9, 64), (33, 64), (7, 61), (1, 1000)):
        x, row = random(rows, columns), random(columns)
        for ours, theirs in zip(f(x, row), fn(x, row), strict=True):
            torch.testing.assert_close(ours, theirs)


@each_driver
def test_what_is_read_may_be_written(driver: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        x.mul_(2).add_(y)
        return (x.exp() + 1).sigmoid()

    agree(fn, random(4096), random(4096), device=driver, profile="simt", memory="discrete")


def test_accesses() -> None:
    """Aligned vectors in the device's own memory, alone where neighbours are in memory too."""
    driver, x = two_drivers()[0], random(64, 96)
    assert "float4u*" in _source(lambda x: x + 1, x, device=driver, memory="auto")
    assert "float4*" in _source(lambda x: x + 1, x, device=driver, memory="discrete")
    shifted = _source(lambda x: x[:, 1:93] + 1, x, device=driver, memory="discrete")
    assert "float4u*)(arg0" in shifted and "float4*)(arg1" in shifted
    assert "float4" not in _source(lambda x: x.t().contiguous(), x, device=driver)
    large = random(128, 160)
    assert "tile0[32][33]" in _source(lambda x: x.t().contiguous(), large, device=driver)
    assert "round < 3" in _source(lambda x: x + 1, random(3 * 1001), device=driver)
