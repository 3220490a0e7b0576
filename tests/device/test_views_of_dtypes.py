"""Tensors seen as another dtype: the same bits, in the kernel that computes them."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch import Tensor
from torch._dynamo.utils import counters

each_driver = pytest.mark.parametrize("driver", two_drivers())

BYTES = [torch.uint8, torch.int8, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz]
SHORT = [torch.int16, torch.uint16, torch.float16, torch.bfloat16]
SINGLE = [torch.int32, torch.uint32, torch.float32]
DOUBLE = [torch.int64, torch.uint64, torch.float64]
PAIRS = [p for group in (BYTES, SHORT, SINGLE, DOUBLE) for p in permutations(group, 2)]

HALF_TYPES = {torch.float16, torch.bfloat16}


def of_all_kinds(dtype: torch.dtype) -> Tensor:
    """All patterns of small dtypes; of others some, with NaN of all kinds and denormal numbers."""
    size = dtype.itemsize
    if size <= 2:
        whole = {1: torch.uint8, 2: torch.int16}[size]
        return torch.arange(1 << 8 * size).to(whole).view(dtype)
    high = torch.arange(1 << 16).to(torch.int16)
    low = torch.randint(-(1 << 15), 1 << 15, (1 << 16, size // 2 - 1)).to(torch.int16)
    return torch.cat([low, high[:, None]], 1).view(dtype).reshape(-1)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
@pytest.mark.parametrize("profile", ["vector", "simt"])
@each_driver
def test_bits(source: torch.dtype, target: torch.dtype, profile: str, driver: str) -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.view(target).t().contiguous(), x.t().contiguous().view(target)

    x = of_all_kinds(source)
    for half in HALF_TYPES & {source, target}:  # copies of their NaN have other bits
        nan = x.view(half).isnan()
        x = torch.where(nan, 0, x.view(torch.int16)).view(source)
    x = x.reshape(16, -1)
    counters.clear()
    for got, want in zip(compiled(fn, driver, profile=profile)(x), fn(x), strict=True):
        assert got.dtype is target
        assert torch.equal(got.view(torch.uint8), want.view(torch.uint8))
    on_host = bool(HALF_TYPES & {source, target})
    assert (counters["opencl"]["fallbacks"] > 0) is on_host


@pytest.mark.parametrize("profile", ["vector", "simt"])
@each_driver
def test_between_other_operators(profile: str, driver: str) -> None:
    """One kernel: the sign and the exponent of what it computes, and numbers made of bits."""

    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        bits = (x * 2 + y).view(torch.int32)
        made = (bits & 0x007FFFFF | 0x3F800000).view(torch.float32) - 1
        return bits < 0, (bits >> 23 & 255) - 127, made, (x > 0).view(torch.uint8).sum(0)

    counters.clear()
    x, y = random(9, 37), random(9, 37)
    for got, want in zip(compiled(fn, driver, profile=profile)(x, y), fn(x, y), strict=True):
        assert torch.equal(got, want)
    assert counters["opencl"]["fallbacks"] == 0


@each_driver
def test_written_through_a_view(driver: str) -> None:
    def fn(x: Tensor) -> Tensor:
        x.view(torch.int32).bitwise_and_(0x7FFFFFFF)
        return x.view(torch.int32)

    x = random(33)
    mine, eager = x.clone(), x.clone()
    result = compiled(fn, driver)(mine)
    assert torch.equal(result, fn(eager))
    assert torch.equal(mine, eager)
    assert result.data_ptr() == mine.data_ptr()


@each_driver
def test_other_sizes_and_truth_values(driver: str) -> None:
    x = random(4, 8)
    for fn in (
        lambda x: x.view(torch.int16) + 1,
        lambda x: x.view(torch.float64).view(torch.int64) + 1,
        lambda x: x.to(torch.complex64).view(torch.float32) + 1,
        lambda x: (x > 0).to(torch.uint8).view(torch.bool),
    ):
        assert torch.equal(compiled(fn, driver)(x), fn(x))


@each_driver
def test_dynamic_sizes(driver: str) -> None:
    ours = compiled(lambda x: x.view(torch.int32) ^ 1, driver, dynamic=True)
    for n in (3, 40, 7):
        x = random(n, n + 1)
        assert torch.equal(ours(x), x.view(torch.int32) ^ 1)
