"""Flattening what is contiguous gives an affine index again."""

from __future__ import annotations

import itertools

import pytest
import sympy
import torch
from evaluate import Harness
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from ocl_inductor.ir.index import loop_vars, simplify
from ocl_inductor.lowering.core.values import permute, reshape, strided_view


@pytest.mark.parametrize(
    ("size", "new"),
    [
        ((2, 17, 192), (34, 192)),
        ((4, 5, 6), (120,)),
        ((4, 5, 6), (10, 12)),
        ((2, 3, 4, 5), (6, 20)),
        ((1, 3, 1, 5), (15,)),
    ],
)
def test_flatten_is_a_view(size: tuple[int, ...], new: tuple[int, ...]) -> None:
    x = Harness().input(torch.randn(size))
    flat = reshape(x, new)
    view = strided_view(flat)
    assert view is not None and view.stride == torch.empty(new).stride()
    split = strided_view(reshape(flat, size))
    assert split is not None
    sizes = zip(split.stride, torch.empty(size).stride(), size, strict=True)
    assert all(a == b for a, b, n in sizes if n != 1)


def test_flatten_of_the_contiguous_part_of_a_permuted_tensor() -> None:
    x = permute(Harness().input(torch.randn(2, 3, 4, 5)), (0, 2, 3, 1))
    view = strided_view(reshape(x, (2, 20, 3)))
    assert view is not None and view.stride == (60, 1, 20)
    assert strided_view(reshape(x, (2, 60))) is None


def test_symbolic_flatten_is_a_view() -> None:
    n = sympy.Symbol("s0", integer=True, positive=True)
    v0, v1 = loop_vars(2)
    e = 8 * 192 * FloorDiv(v0, 8) + 192 * ModularIndexing(v0, 1, 8) + v1
    assert simplify(e, {v0: 8 * n, v1: 192}) == 192 * v0 + v1
    e = n * 192 * FloorDiv(v0, n) + 192 * ModularIndexing(v0, 1, n) + v1
    assert simplify(e, {v0: 8 * n, v1: 192}) == 192 * v0 + v1


def test_recombination_is_exact() -> None:
    v0, v1 = loop_vars(2)
    x = v0 * 7 + v1
    cases = [
        60 * FloorDiv(x, 12) + 5 * ModularIndexing(x, 1, 12) + v1,
        24 * FloorDiv(x, 12) + 4 * ModularIndexing(x, 2, 6) + ModularIndexing(x, 1, 2),
        6 * ModularIndexing(x, 3, 4) + 2 * ModularIndexing(x, 1, 3) + 2 * FloorDiv(x, 12),
    ]
    for e in cases:
        simple = simplify(e, {v0: 9, v1: 7})
        for a, b in itertools.product(range(9), range(7)):
            assert e.subs({v0: a, v1: b}) == simple.subs({v0: a, v1: b})
