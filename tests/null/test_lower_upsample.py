"""Resizing against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from evaluate import Harness, check

from ocl_inductor.lowering.core.values import strided_view

aten = torch.ops.aten

SIZES = [[8, 10], [4, 5], [3, 3], [13, 7], [1, 1], [12, 20], [2, 5]]


def images(*shape: int) -> list[torch.Tensor]:
    x = torch.randn(shape)
    return [x, x.to(memory_format=torch.channels_last)]


@pytest.mark.parametrize("size", SIZES)
def test_2d(size: list[int]) -> None:
    for x in images(2, 3, 4, 5):
        check(aten.upsample_nearest2d.default, x, size)
        check(aten._upsample_nearest_exact2d.default, x, size)
        for corners in (False, True):
            check(aten.upsample_bilinear2d.default, x, size, corners)
            check(aten.upsample_bicubic2d.default, x, size, corners, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("factors", [[2.0, 2.0], [1.5, 2.3], [0.7, 0.5], [3.0, 1.0]])
def test_scale_factors(factors: list[float]) -> None:
    for x in images(2, 3, 6, 7):
        check(aten.upsample_nearest2d.vec, x, None, factors)
        check(aten._upsample_nearest_exact2d.vec, x, None, factors)
        for corners in (False, True):
            check(aten.upsample_bilinear2d.vec, x, None, corners, factors)
            check(aten.upsample_bicubic2d.vec, x, None, corners, factors, rtol=1e-4, atol=1e-4)
        size = [int(6 * factors[0]), int(7 * factors[1])]
        check(aten.upsample_nearest2d.default, x, size, *factors)
        check(aten.upsample_bilinear2d.default, x, size, False, *factors)


def test_other_ranks() -> None:
    line, volume = torch.randn(2, 3, 7), torch.randn(2, 3, 4, 5, 3)
    check(aten.upsample_nearest1d.default, line, [11])
    check(aten._upsample_nearest_exact1d.vec, line, None, [2.5])
    check(aten.upsample_linear1d.default, line, [5], False)
    check(aten.upsample_linear1d.vec, line, None, True, [2.0])
    check(aten.upsample_nearest3d.default, volume, [8, 5, 2])
    check(aten.upsample_trilinear3d.default, volume, [5, 10, 4], False)


def test_many_sizes_pick_the_pixels_of_eager() -> None:
    for old in range(1, 24, 3):
        x = torch.arange(old).float().reshape(1, 1, old)
        for new in range(1, 60, 7):
            check(aten.upsample_nearest1d.default, x, [new], rtol=0, atol=0)
            check(aten._upsample_nearest_exact1d.default, x, [new], rtol=0, atol=0)


def test_half_and_integers() -> None:
    x = torch.randn(1, 2, 4, 4, dtype=torch.bfloat16)
    check(aten.upsample_bilinear2d.default, x, [8, 8], False, rtol=2e-2, atol=2e-2)
    check(aten.upsample_nearest2d.default, (x * 9).to(torch.uint8), [8, 8])


@pytest.mark.parametrize("op", [aten.upsample_nearest2d.default, aten.upsample_bilinear2d.default])
def test_memory_order_follows_the_input(op: Any) -> None:
    harness = Harness()
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    args = (False,) if "bilinear" in str(op) else ()
    view = strided_view(harness.lower(op, x, [7, 11], *args))
    assert view is not None and view.stride[1] == 1
