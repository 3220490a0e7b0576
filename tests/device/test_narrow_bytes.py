"""Products of bytes by a CPU's matrix unit are exact, plain and turned, for every sign and tail."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from abilities import where_pytorch_can
from agreement import compiled, two_drivers

from ocl_inductor.device.select import select_device
from ocl_inductor.lowering.matmul import narrow_product

each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))
SIZES = [(64, 64, 64), (37, 70, 45), (131, 771, 50), (20, 33, 24), (18, 2050, 130)]


@pytest.fixture(params=["plain", "turned"])
def way(request: Any, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product, or the transposed one, whatever is faster."""
    if not select_device(driver).info.amx:
        pytest.skip("the CPU has no matrix unit (AMX), or the driver does not reach it")
    monkeypatch.setenv("OCL_INDUCTOR_CACHE", "0")  # plans that were made before took another way
    real, time = narrow_product._turned, {"plain": float("inf"), "turned": -1.0}[request.param]

    def valued(*args: Any) -> Any:
        part = real(*args)
        return part and dataclasses.replace(part, time=time)

    monkeypatch.setattr(narrow_product, "_turned", valued)


def signed(*size: int) -> torch.Tensor:
    return torch.randint(-128, 128, size, dtype=torch.int8)


def unsigned(*size: int) -> torch.Tensor:
    return torch.randint(0, 256, size, dtype=torch.uint8)


@each_driver
@pytest.mark.parametrize("m, k, n", SIZES)
def test_products(driver: str, taken: list[str], way: None, m: int, k: int, n: int) -> None:
    pairs = [
        (signed(m, k), signed(k, n)),
        (signed(m, k), signed(n, k).t()),
        (unsigned(m, k), signed(n, k).t()),
        (signed(k, m).t(), signed(k, n)),
        (unsigned(m, k + 3)[:, 1:-2], signed(k, n + 5)[:, 2:-3]),
        (torch.full((m, k), -128, dtype=torch.int8), torch.full((k, n), -128, dtype=torch.int8)),
    ]
    flat = [x for pair in pairs for x in pair]

    def products(*x: torch.Tensor) -> list[torch.Tensor]:
        return [torch._int_mm(*p) for p in zip(x[::2], x[1::2], strict=True)]

    with where_pytorch_can(products, *flat):
        got = compiled(products, driver)(*flat)
    for result, (a, b) in zip(got, pairs, strict=True):
        assert torch.equal(result, (a.long() @ b.long()).int())
    assert taken == ["narrow_gemm"] * len(pairs)
