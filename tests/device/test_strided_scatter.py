"""Writing through strides, on the drivers."""

from __future__ import annotations

import pytest
import torch
from agreement import agree, random, two_drivers


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((2, 12), (12, 1), 0), ((12, 2), (1, 12), 0), ((3, 1, 4), (7, 1, 2), 1), ((0, 3), (3, 1), 0)],
)
def test_as_strided_scatter(
    driver: str, size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> None:
    def write(x: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter(x * 2, src, size, stride, offset) + 1

    agree(write, random(24), random(*size), device=driver)
