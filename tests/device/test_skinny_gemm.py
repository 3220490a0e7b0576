"""Products of few rows in compiled functions: weights read in place, sizes that change."""

from __future__ import annotations

import pytest
import torch
from agreement import compiled, kernels, poisoned_memory, two_drivers
from torch._dynamo.utils import counters

each_driver = pytest.mark.parametrize("driver", two_drivers())


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    counters.clear()


def _error(actual: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> float:
    """The largest, of the largest number of the product in float64."""
    exact = x.double() @ w.double().T
    return float((actual.double() - exact).abs().max() / exact.abs().max())


@each_driver
def test_rows_and_depth_that_change(driver: str) -> None:
    """One compilation, whose kernel takes more rows than the hint, and a rest along k or none."""
    run = compiled(torch.nn.functional.linear, driver, dynamic=True)
    for rows, columns, depth in ((6, 96, 513), (130, 96, 512), (5, 40, 2305), (49, 200, 530)):
        x, w = torch.randn(rows, depth), torch.randn(columns, depth)
        with torch.no_grad(), poisoned_memory():
            assert _error(run(x, w), x, w) < 1e-6
    assert counters["stats"]["unique_graphs"] == 1


@each_driver
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_summed_up_in_float32(driver: str, dtype: torch.dtype) -> None:
    run = compiled(torch.nn.functional.linear, driver)
    x, w = torch.randn(20, 700).to(dtype), torch.randn(150, 700).to(dtype)
    with torch.no_grad(), poisoned_memory():
        assert _error(run(x, w), x, w) < torch.finfo(dtype).eps


@each_driver
def test_batches_of_matrices_and_of_one(driver: str) -> None:
    run = compiled(torch.matmul, driver)
    for w in (torch.randn(3, 70, 300), torch.randn(70, 300)):
        x = torch.randn(3, 9, 300)
        with torch.no_grad(), poisoned_memory():
            found = run(x, w.mT)
        torch.testing.assert_close(found, x @ w.mT, rtol=1e-4, atol=1e-4)


@each_driver
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.usefixtures("unchained")
def test_weights_of_bytes_are_read_as_they_lie(driver: str, dtype: torch.dtype) -> None:
    """A layer of torchao's with int8 weights: a quarter of the traffic, nothing kept in float32."""

    def layer(x: torch.Tensor, w: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._weight_int8pack_mm(x, w, scales)

    w = torch.randint(-128, 128, (300, 1100)).to(torch.int8)
    scales = (torch.rand(300) / 100).to(dtype)
    for rows in (1, 11):
        torch._dynamo.reset()
        counters.clear()
        x = torch.randn(rows, 1100).to(dtype)
        with torch.no_grad(), poisoned_memory():
            found = compiled(layer, driver, fallback="error")(x, w, scales)
        exact = (x.double() @ w.double().T) * scales.double()
        error = (found.double() - exact).abs().max() / exact.abs().max()
        # The result's type rounds once; what sums in float32 lose is less than the bound above.
        assert found.dtype is dtype and error < max(torch.finfo(dtype).eps, 1e-6)
        # The rows in float32, and the product.
        assert kernels() == (1 if dtype is torch.float32 else 2)
