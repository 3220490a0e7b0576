"""Vectors whose lanes are not equidistant: repeated, interleaved, halves of bytes, backwards.

Each is one load and a shuffle; copies are exact. Sizes beside those of whole vectors end in other
code.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from agreement import compiled, random, two_drivers
from torch import Tensor

each_driver = pytest.mark.parametrize("driver", two_drivers())


def halves(x: Tensor) -> Tensor:
    """The numbers of 4 bits in bytes, the low one first."""
    return torch.stack([(x & 15).float() - 8, (x >> 4).float() - 8], -1).flatten(-2) * 2


def shifted(x: Tensor) -> Tensor:
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8)
    return ((x[..., None] >> shifts) & 3).flatten(-2).float() + 1


def rotated(x: Tensor) -> Tensor:
    """Pairs turned, as rotary positions do where they are interleaved."""
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) + x


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "interleaved": lambda x: torch.stack([x + 1, x * 2], -1).flatten(-2) - 1,
    "four interleaved": lambda x: torch.stack([x, -x, x * 2, x + 3], -1).flatten(-2) * 2,
    "three interleaved": lambda x: torch.stack([x, -x, x * 2], -1).flatten(-2) * 2,
    "repeated": lambda x: x.repeat_interleave(2, -1) + 1,
    "repeated four times": lambda x: x.repeat_interleave(4, -1) + x.repeat(1, 4),
    "repeated in sums": lambda x: (x.repeat_interleave(2, -1) * 3).sum(-1),
    "backwards": lambda x: x.flip(-1) * 2 + x,
    "turned pairs": lambda x: rotated(x[:, : x.shape[1] // 2 * 2]),
    "doubled": lambda x: F.interpolate(x[None, None], scale_factor=2) + 1,
    "of groups": lambda x: (x.view(-1, x.shape[1]) * x[:, :1]).flip(0, 1) + 1,
}
BYTES = {"halves of bytes": halves, "quarters of bytes": shifted}


@pytest.mark.parametrize("columns", [64, 37, 96, 8, 130])
@pytest.mark.parametrize("name", PROGRAMS)
@each_driver
def test_copies(name: str, columns: int, driver: str) -> None:
    fn, x = PROGRAMS[name], random(5, columns)
    got, expected = compiled(fn, driver)(x).double(), fn(x.double())
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=1e-6 if got.dim() > 1 else 3e-5)


@pytest.mark.parametrize("columns", [64, 37, 8])
@pytest.mark.parametrize("name", BYTES)
@each_driver
def test_parts_of_bytes(name: str, columns: int, driver: str) -> None:
    fn, x = BYTES[name], torch.randint(256, (5, columns), dtype=torch.uint8)
    assert torch.equal(compiled(fn, driver)(x), fn(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.int64, torch.uint8])
@each_driver
def test_dtypes(dtype: torch.dtype, driver: str) -> None:
    x = (random(6, 48) * 5).to(dtype)
    for fn in (
        lambda x: torch.stack([x, x.flip(-1)], -1).flatten(-2).roll(1, 0),
        lambda x: x.repeat_interleave(2, -1).where(x.sum() > -1e9, False),
    ):
        assert torch.equal(compiled(fn, driver)(x), fn(x))


def weights_of_four_bits(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    rows, groups = scales.shape
    numbers = torch.stack([(packed & 15).to(x.dtype) - 8, (packed >> 4).to(x.dtype) - 8], -1)
    weight = numbers.reshape(rows, groups, 32) * scales[:, :, None]
    return F.linear(x, weight.reshape(rows, -1))


def rounding_of_a_sum(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    """What a running float32 sum of the products may differ by: sqrt(K) u sum |a b|.

    Roundings are taken as independent (Higham and Mary, "A new approach to probabilistic rounding
    error analysis", 2019); a library that keeps several partial sums is better than this.
    """
    rows, groups = scales.shape
    weight = torch.stack([(packed & 15).double() - 8, (packed >> 4).double() - 8], -1)
    weight = weight.reshape(rows, groups, 32) * scales.double()[:, :, None]
    terms = F.linear(x.double().abs(), weight.reshape(rows, -1).abs())
    return x.shape[1] ** 0.5 * 2.0**-24 * terms.max()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@each_driver
def test_weights_of_four_bits(dtype: torch.dtype, rows: int, driver: str) -> None:
    x, scales = random(rows, 256).to(dtype), random(40, 8).to(dtype)
    packed = torch.randint(256, (40, 128), dtype=torch.uint8)
    expected = weights_of_four_bits(x.double(), packed, scales.double())
    got = compiled(weights_of_four_bits, driver)(x, packed, scales)
    eager = weights_of_four_bits(x, packed, scales)
    assert got.dtype is dtype
    error = (got.double() - expected).abs().max()
    assert error <= 1.01 * (eager.double() - expected).abs().max() + rounding_of_a_sum(
        x, packed, scales
    )
