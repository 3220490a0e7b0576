"""Products whose sums are so long that they are cut into parts, as behind a vocabulary."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, random, two_drivers

from ocl_inductor.lowering.matmul import product_template

each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))

#: No multiple of a chunk, nor of a register: a panel of 16 lanes is longer than 1 MiB.
LONG = 17011


@each_driver
def test_long_sums(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cut, real = [], product_template._sum_of_parts

    def counting(*args: Any) -> Any:
        cut.append(args)
        return real(*args)

    monkeypatch.setattr(product_template, "_sum_of_parts", counting)

    def fn(a: Any, b: Any, rows: Any, at: Any, bias: Any) -> Any:
        product = a @ b
        return torch.relu(product + bias) * rows, rows.t() @ product, at.t() @ b, a[None] @ b[None]

    a, b = random(60, LONG), random(LONG, 20)
    agree(
        fn, a, b, random(60, 20), random(LONG, 60), random(20), device=driver, profile="vector",
        rtol=1e-4, atol=2e-3,
    )  # fmt: skip
    assert len(cut) >= 3


@pytest.mark.slow
@each_driver
def test_long_sums_of_symbolic_length(driver: str) -> None:
    def fn(a: Any, b: Any) -> Any:
        return a @ b

    for m, k in ((60, LONG), (61, LONG + 7), (50, 300)):
        agree(
            fn, random(m, k), random(k, 20), device=driver, profile="vector", dynamic=True,
            rtol=1e-4, atol=2e-3,
        )  # fmt: skip
