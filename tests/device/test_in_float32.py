"""Operators of half types that are computed in float32 as a whole: their results rounded once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from agreement import compiled, random, two_drivers

HALVES = (torch.float16, torch.bfloat16)


def volume(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(x, grid, padding_mode="border", align_corners=True)


def picture(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(x, grid, mode="bicubic", padding_mode="reflection", align_corners=False)


def segments(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    lengths = torch.tensor([2, 0, 3])
    return torch.segment_reduce(x, "mean", lengths=lengths) * torch.segment_reduce(
        y, "max", lengths=lengths, initial=-1.0
    )


CASES = [
    (volume, (1, 2, 4, 5, 3), (1, 3, 2, 4, 3)),
    (picture, (2, 3, 6, 7), (2, 4, 5, 2)),
    (segments, (5, 4), (5, 4)),
]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("fn,first,second", CASES, ids=[c[0].__name__ for c in CASES])
@pytest.mark.parametrize("driver", two_drivers())
def test_gradients_are_those_of_float32(
    fn: Callable[..., torch.Tensor],
    first: tuple[int, ...],
    second: tuple[int, ...],
    dtype: torch.dtype,
    driver: str,
) -> None:
    # Places a little off the borders, where another side's gradient would be as right.
    narrow = [random(*first).to(dtype), (random(*second) * 0.3 + 0.01).to(dtype)]
    wide = [x.float().requires_grad_() for x in narrow]
    narrow = [x.requires_grad_() for x in narrow]
    expected = fn(*wide)
    weight = random(*expected.shape).to(dtype)
    actual = compiled(fn, driver, fallback="error")(*narrow)
    # The mean of a segment without elements is NaN.
    gradients = torch.autograd.grad((expected.nan_to_num() * weight.float()).sum(), wide)
    found = torch.autograd.grad((actual.nan_to_num() * weight).float().sum(), narrow)
    unit = torch.finfo(dtype).eps
    for a, e in zip((actual, *found), (expected, *gradients), strict=True):
        assert a.dtype == dtype
        scale = e.nan_to_num().abs().max().item()
        torch.testing.assert_close(a.float(), e, rtol=2 * unit, atol=unit * scale, equal_nan=True)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("driver", two_drivers())
def test_rows_are_scaled_down_to_a_norm(dtype: torch.dtype, driver: str) -> None:
    weight, index = random(6, 5).to(dtype), torch.tensor([4, 1, 1])
    wide = weight.float()
    F.embedding(index, wide, max_norm=0.5)

    def fn(weight: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return F.embedding(index, weight, max_norm=0.5)

    result = compiled(fn, driver, fallback="error")(weight, index)
    torch.testing.assert_close(weight, wide.to(dtype))
    torch.testing.assert_close(result, weight[index])
