"""Reads at computed positions against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import Harness, check

from ocl_inductor.ir.expr import index_value
from ocl_inductor.ir.index import loop_var
from ocl_inductor.lowering.core.values import Value, strided_view
from ocl_inductor.operators.registry import CannotLower

aten = torch.ops.aten


def ints(high: int, *shape: int, low: int = 0) -> torch.Tensor:
    return torch.randint(low, high, shape)


def transposed(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, the first dimension innermost in memory."""
    return x.movedim(0, -1).contiguous().movedim(-1, 0)


@pytest.mark.parametrize("shape", [(2, 3), (4,), (), (0, 3)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_embedding(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    table = torch.randn(7, 5)
    index = ints(7, *shape).to(dtype)
    check(aten.embedding.default, table, index)
    check(aten.embedding.default, transposed(table), index, 3)


def test_index_select_and_gather() -> None:
    x = torch.randn(4, 5, 6)
    for y in (x, transposed(x), x[:, 1:, ::2]):
        check(aten.index_select.default, y, 1, ints(4, 7))
        check(aten.index_select.default, y, -1, ints(3, 2).int())
        check(aten.index_select.default, y, 0, torch.tensor(2))
        check(aten.gather.default, y, 1, ints(4, 3, 4, 2))
        check(aten.gather.default, y, -1, ints(3, 4, 1, 9))
        check(aten.gather.default, y, 0, ints(3, 0, 4, 2))
    check(aten.gather.default, torch.tensor(3.0), 0, torch.tensor([0, 0]))
    check(aten.gather.default, torch.randn(3), 0, torch.tensor(1))
    check(aten.take.default, x, ints(120, 3, 4, low=-120))
    check(aten.take.default, transposed(x), ints(120, 3, 4, low=-120))


CASES: list[tuple[tuple[int, ...], list[Any]]] = [
    ((4, 5, 6), [ints(4, 3)]),
    ((4, 5, 6), [None, ints(5, 3, 2)]),
    ((4, 5, 6), [ints(4, 3, 1), ints(5, 2)]),
    ((4, 5, 6), [ints(4, 3), None, ints(6, 3)]),
    ((4, 5, 6), [None, ints(5, 3), ints(6, 1)]),
    ((4, 5, 6), [ints(4, 3, low=-4), torch.tensor(-1), None]),
    ((4, 5, 6), [torch.tensor(1), None, torch.tensor(2)]),
    ((4, 5), [ints(4, 2, 1, 1, 1), ints(5, 1, 1, 1, 5)]),
    ((4, 5), [ints(4, 0), None]),
    ((4, 0), [ints(4, 3), None]),
]


@pytest.mark.parametrize(("shape", "indices"), CASES)
def test_index(shape: tuple[int, ...], indices: list[Any]) -> None:
    x = torch.randn(shape)
    for y in (x, transposed(x), x > 0):
        check(aten.index.Tensor, y, indices)
        check(aten._unsafe_index.Tensor, y, indices)


def test_masks_depend_on_data() -> None:
    with pytest.raises(CannotLower, match="depends on data"):
        Harness().lower(aten.index.Tensor, torch.randn(3), [torch.tensor([True, False, True])])


def test_an_index_out_of_range_stays_inside() -> None:
    harness = Harness()
    result = harness.lower(aten.embedding.default, torch.randn(3, 2), torch.tensor([99, -99]))
    assert harness.compute(result).shape == (2, 2)


def test_an_affine_index_stays_affine() -> None:
    harness = Harness()
    x = harness.input(torch.randn(4, 9))
    positions = Value((5,), torch.int64, index_value(loop_var(0) + 2))
    result = harness.lower(aten.index_select.default, x, 1, positions)
    assert strided_view(result) is not None
    torch.testing.assert_close(harness.compute(result), harness.compute(x)[:, 2:7])


def test_a_computed_source_goes_to_memory() -> None:
    harness = Harness()
    source = harness.input(torch.randn(4, 3))
    flipped = Value(source.size, source.dtype, source.at([3 - loop_var(0), loop_var(1)]))
    index = torch.tensor([2, 0])
    got = harness.compute(harness.lower(aten.embedding.default, flipped, index))
    torch.testing.assert_close(got, harness.compute(flipped)[index])


def test_one_hot() -> None:
    check(aten.one_hot.default, ints(5, 2, 3), 5)
