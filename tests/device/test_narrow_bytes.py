"""Products of bytes by a CPU's matrix unit are exact, plain and turned, for every sign and tail."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from agreement import compiled, two_drivers
from byte_checks import check_products

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


@each_driver
@pytest.mark.parametrize("m, k, n", SIZES)
def test_products(driver: str, taken: list[str], way: None, m: int, k: int, n: int) -> None:
    count = check_products(lambda f: compiled(f, driver), m, k, n)
    assert taken == ["narrow_gemm"] * count
