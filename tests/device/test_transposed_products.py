"""Products whose left operand lies transposed, as in weight gradients: packed, or prefetched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, random, two_drivers

each_driver = pytest.mark.parametrize("driver", two_drivers())

#: (k, m, n): steps of 4096 bytes that share a cache set, many panels of columns, and neither.
SIZES = ((70, 1024, 100), (400, 41, 60))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        *(pytest.param(t, marks=pytest.mark.slow) for t in (torch.float64, torch.bfloat16)),
    ],
    ids=str,
)
@each_driver
def test_transposed_left_operands(driver: str, dtype: torch.dtype) -> None:
    def fn(pairs: Any, batch: Any) -> Any:
        a, b = batch
        return [x.t() @ y for x, y in pairs], a.mT @ b, a[:1].mT @ b

    pairs = [(random(k, m, dtype=dtype), random(k, n, dtype=dtype)) for k, m, n in SIZES]
    batch = random(2, 66, 33, dtype=dtype), random(2, 66, 400, dtype=dtype)
    loose = {"rtol": 3e-2, "atol": 0.5} if dtype is torch.bfloat16 else {}
    agree(fn, pairs, batch, device=driver, profile="vector", **loose)


@each_driver
def test_transposed_left_operands_of_symbolic_sizes(driver: str) -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> Any:
        return a.t() @ b

    for k, m, n in ((70, 40, 400), (90, 33, 390)):
        agree(fn, random(k, m), random(k, n), device=driver, profile="vector", dynamic=True)
