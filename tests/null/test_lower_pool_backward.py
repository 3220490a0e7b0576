"""Gradients of pooling against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import check

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


@pytest.mark.parametrize(
    "args",
    [
        ([7, 7], [1, 1], [3, 3], [1, 1], False),
        ([13, 5], [2, 1], [6, 2], [1, 2], True),
        ([9, 9], [1, 1], [4, 4], [1, 1], False),  # larger than the image
    ],
)
def test_many_overlapping_windows_are_a_loop(args: tuple[Any, ...]) -> None:
    image = torch.randn(2, 3, 8, 9)
    for x in (image, image.to(memory_format=torch.channels_last), image.round(), image[0]):
        out, indices = aten.max_pool2d_with_indices.default(x, *args)
        grad = torch.randn_like(out)
        check(aten.max_pool2d_with_indices_backward.default, grad, x, *args, indices)


@pytest.mark.parametrize("include", [False, True])
def test_many_overlapping_means_are_a_loop(include: bool) -> None:
    x = torch.randn(1, 2, 12, 11)
    args = ([7, 7], [1, 1], [3, 3], False, include, None)
    check(aten.avg_pool2d_backward.default, torch.randn_like(x), x, *args)


@pytest.mark.parametrize("output", [[20, 30], [45, 54], [19, 61]])
def test_many_adaptive_windows_of_an_element_are_a_loop(output: list[int]) -> None:
    x, grad = torch.randn(1, 2, 3, 7), torch.randn(1, 2, *output)
    check(aten._adaptive_avg_pool2d_backward.default, grad, x)
