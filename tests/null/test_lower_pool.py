"""Pooling against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import check

aten = torch.ops.aten


def images(*shape: int) -> list[torch.Tensor]:
    x = torch.randn(shape)
    return [x, x.to(memory_format=torch.channels_last)] if x.ndim == 4 else [x]


MAX: list[tuple[Any, ...]] = [
    ([2, 2], [2, 2]),
    ([3, 3], [2, 2], [1, 1]),
    ([3], [1], [1]),
    ([2, 3],),
    ([3, 2], [2, 1], [1, 0], [2, 3]),
    ([3, 3], [2, 2], [1, 1], [1, 1], True),
    ([2, 2], [3, 3], [0, 0], [1, 1], True),
    ([3, 3], [3, 3], [1, 1], [2, 2]),
    ([6, 6], [2, 2], [3, 3]),
    ([6, 5], [1, 1], [0, 0]),
]


@pytest.mark.parametrize("args", MAX)
@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (3, 7, 8)])
def test_max_pool2d(args: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    for x in images(*shape):
        check(aten.max_pool2d_with_indices.default, x, *args)
        x[..., 2, 3] = x[..., 4, 4] = float("nan")
        x[..., :3, :3] = -float("inf")
        check(aten.max_pool2d_with_indices.default, x, *args)
    ties = torch.randint(0, 2, shape)
    check(aten.max_pool2d_with_indices.default, ties.float(), *args)
    check(aten.max_pool2d_with_indices.default, ties - 5, *args)


def test_max_pool3d() -> None:
    x = torch.randn(2, 3, 5, 6, 7)
    check(aten.max_pool3d_with_indices.default, x, [2], [2])
    check(aten.max_pool3d_with_indices.default, x, [3, 2, 2], [1, 2, 1], [1, 1, 0])
    check(aten.max_pool3d_with_indices.default, x, [3, 3, 3], [2], [1], [1], True)


AVG: list[tuple[Any, ...]] = [
    ([2, 2], [2, 2]),
    ([3, 3], [2, 2], [1, 1]),
    ([3, 3], [2, 2], [1, 1], False, False),
    ([3, 3], [2, 2], [1, 1], True),
    ([3, 3], [2, 2], [1, 1], True, False),
    ([3, 3], [2, 2], [1, 1], True, False, 5),
    ([2, 3], [3, 1], [1, 0], True),
    ([7, 7], [1, 1], [3, 3], False, False),
    ([7, 7], [1, 1]),
]


@pytest.mark.parametrize("args", AVG)
@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (3, 7, 8)])
def test_avg_pool2d(args: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    for x in images(*shape):
        check(aten.avg_pool2d.default, x, *args)


def test_avg_pool3d() -> None:
    x = torch.randn(2, 3, 5, 6, 7)
    check(aten.avg_pool3d.default, x, [2], [2])
    check(aten.avg_pool3d.default, x, [3, 2, 2], [1, 2, 1], [1, 1, 0], True, False)


@pytest.mark.parametrize("output", [[1, 1], [2, 3], [7, 7], [3, 5], [10, 4]])
@pytest.mark.parametrize("shape", [(2, 3, 2, 2), (2, 3, 8, 9), (3, 16, 15)])
def test_adaptive_avg(output: list[int], shape: tuple[int, ...]) -> None:
    for x in images(*shape):
        check(aten._adaptive_avg_pool2d.default, x, output)


def test_adaptive_others() -> None:
    check(aten._adaptive_avg_pool3d.default, torch.randn(2, 3, 5, 6, 7), [2, 3, 4])
    check(aten.adaptive_max_pool2d.default, torch.randn(2, 3, 6, 8), [3, 2])


def test_half() -> None:
    x = torch.randn(1, 2, 9, 9, dtype=torch.bfloat16)
    check(aten.max_pool2d_with_indices.default, x, [3, 3], [2, 2], [1, 1])
    check(aten.avg_pool2d.default, x, [3, 3], [2, 2], [1, 1], rtol=1e-2)


def test_empty_batch() -> None:
    check(aten.max_pool2d_with_indices.default, torch.randn(0, 2, 6, 6), [2, 2])
    check(aten.avg_pool2d.default, torch.randn(0, 2, 6, 6), [2, 2])
