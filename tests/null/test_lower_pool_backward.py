"""Gradients of pooling against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import Harness, check

import ocl_inductor.lowering.pool_backward  # noqa: F401
from ocl_inductor.lowering.registry import CannotLower

aten = torch.ops.aten

MAX: list[tuple[Any, ...]] = [
    ([2, 2], [2, 2], [0, 0], [1, 1], False),
    ([3, 3], [2, 2], [1, 1], [1, 1], False),
    ([3, 3], [1, 1], [1, 1], [1, 1], False),
    ([2, 3], [], [0, 0], [1, 1], False),
    ([3, 2], [2, 1], [1, 0], [2, 3], False),
    ([3, 3], [2, 2], [1, 1], [1, 1], True),
    ([2, 2], [3, 3], [0, 0], [1, 1], True),
]


@pytest.mark.parametrize("args", MAX)
def test_max_pool2d(args: tuple[Any, ...]) -> None:
    x = torch.randn(2, 3, 8, 9)
    for y in (x, x.to(memory_format=torch.channels_last), x[0]):
        out, indices = aten.max_pool2d_with_indices.default(y, *args)
        grad = torch.randn_like(out)
        check(aten.max_pool2d_with_indices_backward.default, grad, y, *args, indices)


AVG: list[tuple[Any, ...]] = [
    ([2, 2], [2, 2], [0, 0], False, True, None),
    ([3, 3], [2, 2], [1, 1], False, True, None),
    ([3, 3], [2, 2], [1, 1], False, False, None),
    ([3, 3], [2, 2], [1, 1], True, True, None),
    ([3, 3], [2, 1], [1, 1], True, False, None),
    ([2, 3], [3, 1], [1, 0], True, False, 5),
    ([3, 2], [], [0, 0], False, True, None),
]


@pytest.mark.parametrize("args", AVG)
def test_avg_pool2d(args: tuple[Any, ...]) -> None:
    x = torch.randn(2, 3, 8, 9)
    for y in (x, x.to(memory_format=torch.channels_last), x[0]):
        grad = torch.randn_like(aten.avg_pool2d.default(y, *args))
        check(aten.avg_pool2d_backward.default, grad, y, *args)


@pytest.mark.parametrize("output", [[1, 1], [4, 3], [7, 7], [3, 5], [10, 4]])
def test_adaptive(output: list[int]) -> None:
    x = torch.randn(2, 3, 8, 9)
    grad = torch.randn(2, 3, *output)
    check(aten._adaptive_avg_pool2d_backward.default, grad, x)


def test_adaptive_in_three_dimensions() -> None:
    x, grad = torch.randn(2, 4, 6, 5), torch.randn(2, 2, 3, 3)
    check(aten._adaptive_avg_pool3d_backward.default, grad, x)
    check(aten._adaptive_avg_pool3d_backward.default, grad[None], x[None])


def test_three_dimensions() -> None:
    x = torch.randn(2, 3, 4, 6, 5)
    args = ([2, 2, 2], [2, 1, 2], [0, 1, 0], [1, 1, 1], False)
    out, indices = aten.max_pool3d_with_indices.default(x, *args)
    check(aten.max_pool3d_with_indices_backward.default, out, x, *args, indices)
    rest = ([2, 2, 2], [2, 1, 2], [0, 1, 0], False, False, None)
    grad = torch.randn_like(aten.avg_pool3d.default(x, *rest))
    check(aten.avg_pool3d_backward.default, grad, x, *rest)


def test_many_overlapping_windows_run_on_the_host() -> None:
    x = torch.randn(1, 1, 12, 12)
    args = ([7, 7], [1, 1], [3, 3], False, True, None)
    with pytest.raises(CannotLower, match="windows"):
        Harness().lower(aten.avg_pool2d_backward.default, x, x, *args)
