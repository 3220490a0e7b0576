"""cat, stack, padding and *_scatter against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import check

aten = torch.ops.aten


def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(0, -1).contiguous().movedim(-1, 0) if x.ndim > 1 else x


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("sizes", [[3], [3, 2], [0, 3, 1], [1, 0], [0, 0], [2] * 5, [1] * 70])
def test_cat(dim: int, sizes: list[int]) -> None:
    shape = [2, 3, 4]
    parts = []
    for n in sizes:
        shape[dim] = n
        parts.append(torch.randn(shape))
    check(aten.cat.default, parts, dim)
    check(aten.cat.default, [transposed(p) for p in parts], dim)


def test_cat_promotes_and_skips_empty_vectors() -> None:
    check(aten.cat.default, [torch.ones(2, 3, dtype=torch.int32), torch.rand(1, 3)])
    check(aten.cat.default, [torch.empty(0), torch.rand(2, 3)], 1)
    check(aten.cat.default, [torch.empty(0), torch.empty(0)])


def test_stack() -> None:
    parts = [torch.randn(2, 3) for _ in range(4)]
    for dim in (0, 1, -1):
        check(aten.stack.default, parts, dim)
    check(aten.stack.default, [torch.tensor(1.0), torch.tensor(2.0)])


@pytest.mark.parametrize(
    "pad", [[1, 2], [0, 0, 3, 0], [-1, 2, 0, -1], [-1, -1], [0, 0], [1, 1, 1, 1, 1, 1]]
)
def test_constant_pad(pad: list[int]) -> None:
    x = torch.randn(2, 4, 5)
    for y in (x, transposed(x), x.int()):
        check(aten.constant_pad_nd.default, y, pad, 3)
        check(aten.constant_pad_nd.default, y, pad)


def test_pad_of_no_elements() -> None:
    check(aten.constant_pad_nd.default, torch.empty(0, 3), [0, 0, 2, 1], 1.5)


def test_border_pads() -> None:
    x = torch.randn(2, 3, 5, 6)
    for y in (x, x.to(memory_format=torch.channels_last)):
        check(aten.reflection_pad2d.default, y, [2, 3, 0, 4])
        check(aten.reflection_pad2d.default, y, [0, 0, 4, 4])
        check(aten.replication_pad2d.default, y, [2, 7, 1, 9])
        check(aten.replication_pad2d.default, y, [-1, 2, 0, 0])
    check(aten.reflection_pad1d.default, x[0, 0], [3, 5])
    check(aten.replication_pad1d.default, x[0], [3, 15])
    check(aten.reflection_pad3d.default, x[None], [1, 2, 3, 4, 0, 2])
    check(aten.replication_pad3d.default, x, [1, 2, 3, 4, 0, 2])


SLICES: list[tuple[int, Any, Any, int]] = [
    (1, 0, -7, 1),
    (1, -7, -3, 1),
    (0, -3, 9223372036854775807, 1),
    (1, 2, 9, 3),
    (1, 1, 10, 2),
    (0, None, None, 1),
    (0, 3, 3, 1),
]


@pytest.mark.parametrize(("dim", "start", "end", "step"), SLICES)
def test_slice_scatter(dim: int, start: Any, end: Any, step: int) -> None:
    x = torch.randn(6, 11)
    part = aten.slice.Tensor(x, dim, start, end, step)
    for y in (x, transposed(x)):
        src = torch.randn(part.shape)
        check(aten.slice_scatter.default, y, src, dim, start, end, step)


def test_select_and_diagonal_scatter() -> None:
    x = torch.randn(4, 5, 6)
    for y in (x, transposed(x)):
        check(aten.select_scatter.default, y, torch.randn(4, 6), 1, 2)
        check(aten.select_scatter.default, y, torch.randn(4, 5), -1, -1)
        for offset in (0, 2, -3):
            part = aten.diagonal.default(y, offset, 0, 2)
            check(aten.diagonal_scatter.default, y, torch.randn(part.shape), offset, 0, 2)
