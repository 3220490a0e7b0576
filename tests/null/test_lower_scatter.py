"""Writes at computed positions against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import check

aten = torch.ops.aten


def ints(high: int, *shape: int, low: int = 0) -> torch.Tensor:
    return torch.randint(low, high, shape)


def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(0, -1).contiguous().movedim(-1, 0) if x.ndim > 1 else x


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scatter(dim: int) -> None:
    x = torch.randn(4, 5, 3)
    distinct = torch.rand(4, 5, 3).argsort(dim)
    small = [2, 4, 3]
    index = ints(3, *small)
    for y in (x, transposed(x)):
        src = torch.randn(4, 5, 3)
        check(aten.scatter.src, y, dim, distinct, src)
        check(aten.scatter.value, y, dim, index, 2.5)
        check(aten.scatter_add.default, y, dim, index, src)
        check(aten.scatter_add.default, y, dim, index[:, :0], src)
        check(aten.scatter.reduce, y, dim, index, src, reduce="multiply")
        check(aten.scatter.value_reduce, y, dim, index, 2.0, reduce="add")
        for how in ("sum", "prod", "amax", "amin", "mean"):
            check(aten.scatter_reduce.two, y, dim, index, src, how)
            check(aten.scatter_reduce.two, y, dim, index, src, how, include_self=False)
    check(aten.scatter_add.default, x, dim, index[..., :1].expand(2, 4, 3), src)


def test_scatter_of_integers_and_scalars() -> None:
    x = ints(100, 4, 5)
    check(aten.scatter_reduce.two, x, 0, ints(4, 3, 5), ints(100, 3, 5), "mean")
    check(aten.scatter_reduce.two, x, 0, ints(4, 3, 5), ints(100, 3, 5), "amax", include_self=False)
    check(aten.scatter_add.default, torch.tensor(1.0), 0, torch.tensor(0), torch.tensor(2.0))
    check(aten.scatter.value, torch.randn(3) > 0, 0, torch.tensor([1]), True)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_slices(dim: int) -> None:
    x = torch.randn(4, 5, 3)
    shape = [4, 5, 3]
    shape[dim] = 6
    index = ints(3, 6)
    for y in (x, transposed(x)):
        check(aten.index_add.default, y, dim, index, torch.randn(shape))
        check(aten.index_add.default, y, dim, index, torch.randn(shape), alpha=-0.5)
        check(aten.index_fill.int_Scalar, y, dim, index, 7)
        check(aten.index_fill.int_Scalar, y, dim, -1 - index, 7)
        check(aten.index_fill.int_Tensor, y, dim, index, torch.tensor(3.0))
        shape[dim] = 3
        check(aten.index_copy.default, y, dim, torch.tensor([2, 0, 1]), torch.randn(shape))
        shape[dim] = 6


CASES: list[tuple[tuple[int, ...], list[Any]]] = [
    ((4, 5, 6), [torch.tensor([2, 0, 3])]),
    ((4, 5, 6), [None, torch.tensor([[4, 0], [1, -2]])]),
    ((4, 5, 6), [torch.tensor([[3], [-4]]), torch.tensor([1, 2])]),
    ((4, 5, 6), [torch.tensor([1, 0]), None, torch.tensor([5, 5])]),
    ((4, 5, 6), [torch.tensor(1), None, torch.tensor(2)]),
    ((40,), [torch.arange(0, 40, 3)]),
    ((4, 5), [torch.empty(0, dtype=torch.int64)]),
]


@pytest.mark.parametrize(("shape", "indices"), CASES)
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(shape: tuple[int, ...], indices: list[Any], accumulate: bool) -> None:
    x = torch.randn(shape)
    size = aten.index.Tensor(x, indices).shape
    for y in (x, transposed(x)):
        check(aten.index_put.default, y, indices, torch.randn(size), accumulate)
        check(aten.index_put.default, y, indices, torch.tensor(2.0), accumulate)


def test_index_put_accumulates_collisions_in_order() -> None:
    index = ints(7, 120)
    check(aten.index_put.default, torch.zeros(7), [index], torch.randn(120), True)
    check(aten.index_put.default, torch.zeros(7, 16), [index], torch.randn(120, 16), True)
    check(aten.index_put.default, torch.zeros(7, 2), [index], torch.randn(120, 2), False)


def test_index_put_with_a_mask() -> None:
    x = torch.randn(4, 5, 6)
    check(aten.index_put.default, x, [x > 0], torch.tensor(1.0))
    check(aten.index_put.default, x, [None, x[0, :, 0] > 0], torch.tensor([1.0]), True)
    # One value for each element that the mask chooses, in order.
    check(aten.index_put.default, x, [x > 0], torch.randn(int((x > 0).sum())))
