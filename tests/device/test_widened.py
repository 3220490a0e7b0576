"""Integers that are converted to 64 bits, then compared, and choices of 8 bits: on every driver."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import PROFILES, compiled

NARROW = (torch.int32, torch.uint8)


def compared(x: torch.Tensor) -> Any:
    y = x.long()
    return (
        y >= 2, y < 0, y == 3, y != -4, y.clamp(-2, 3), y.sign(), y.abs(), y.relu(),
        torch.where(y >= 2, 0, 1), torch.where(y < 1, y, 9), y > y.flip(0), y + 1 < 2,
    )  # fmt: skip


def positions(x: torch.Tensor) -> Any:
    n = torch.arange(x.shape[0])
    return n < 5, torch.where(n >= 2, 0, 1), n >= x.long(), torch.where(x > 0, n, -n)


@pytest.mark.parametrize("profile", PROFILES)
def test_comparisons(device_name: str, profile: str) -> None:
    values = torch.tensor([7, -4, -3, 3, 2, 0, 1, -1, 5] * 5)
    for fn in (compared, positions):
        for dtype in NARROW:
            function = compiled(fn, device_name, profile=profile)
            x = values.to(dtype)
            for found, wanted in zip(function(x), fn(x), strict=True):
                assert found.dtype == wanted.dtype and torch.equal(found, wanted), (dtype, wanted)


@pytest.mark.parametrize("profile", PROFILES)
def test_selections_of_whole_numbers(device_name: str, profile: str) -> None:
    """Of numbers that have 64 bits from the start, by masks that have fewer."""
    x = torch.randint(-5, 9, (37,))
    function = compiled(lambda x: (torch.where(x >= 2, 0, 1), torch.where(x > 2, 5, -x)),
                        device_name, profile=profile)  # fmt: skip
    for found, wanted in zip(function(x), (torch.where(x >= 2, 0, 1), torch.where(x > 2, 5, -x)),
                             strict=True):  # fmt: skip
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
def test_choices_of_small_numbers(device_name: str, dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor) -> Any:
        one = torch.ones_like(x)
        chosen = torch.where(x > 1, x, one), torch.where(x.long() > 1, x, one)
        return *chosen, x.masked_fill(x > 2, 1), x.clamp(1, 3), x.maximum(one), x.minimum(x.flip(0))

    x = torch.tensor([7, -4, -3, 3, 2, 0, 1, -1, 5]).to(dtype)
    for found, wanted in zip(compiled(fn, device_name)(x), fn(x), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32], ids=str)
@pytest.mark.parametrize("profile", PROFILES)
def test_positions_in_sorts(device_name: str, profile: str, dtype: torch.dtype) -> None:
    """Of fewer elements than a block, of one, and of several."""

    def fn(*xs: torch.Tensor) -> Any:
        return [y for x in xs for y in (*x.sort(stable=True), *x.topk(3, sorted=True))]

    xs = [torch.randperm(3 * n).reshape(3, n).to(dtype) for n in (5, 16, 20, 70)]
    for found, wanted in zip(compiled(fn, device_name, profile=profile)(*xs), fn(*xs), strict=True):
        assert torch.equal(found, wanted)
