"""Gradients of convolutions of bfloat16 by a CPU's matrix unit."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from agreement import compiled, two_drivers
from bf16_checks import name_of, narrow
from torch import nn

from ocl_inductor.device.select import select_device
from ocl_inductor.lowering.conv_gradients import narrow_weight_gradient

each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))
#: A layer, its input, and whether its weight's gradient is products of taps.
LAYERS = [
    (nn.Conv2d(64, 64, 3, padding=1), (2, 64, 14, 14), True),
    (nn.Conv2d(32, 48, 1), (3, 32, 9, 11), True),
    (nn.Conv2d(16, 40, 3, padding=(0, 2), dilation=(1, 2)), (2, 16, 13, 17), True),
    (nn.Conv1d(20, 30, 5, padding=2), (3, 20, 50), True),
    (nn.Conv3d(16, 20, 3, padding=1), (1, 16, 5, 6, 7), True),
    (nn.Conv2d(64, 64, 3, stride=2, padding=1), (2, 64, 14, 14), False),
    (nn.Conv2d(32, 32, 3, padding=1, groups=2), (2, 32, 9, 9), False),
    (nn.ConvTranspose2d(32, 20, 3, padding=1), (1, 32, 6, 7), False),
    (nn.Conv2d(5, 24, 3, padding=1), (2, 5, 9, 9), False),
]


@pytest.fixture
def unit(driver: str) -> None:
    if not select_device(driver).info.amx:
        pytest.skip("the CPU has no matrix unit (AMX), or the driver does not reach it")


def check(layer: nn.Module, size: tuple[int, ...], driver: str) -> None:
    """No further from float64 than eager, but for sums in another order."""
    layer, x = copy.deepcopy(layer).bfloat16(), narrow(*size)
    grad, gradients = None, []
    for run in ("exact", "eager", "ours"):
        module, operand = copy.deepcopy(layer), x.clone()
        if run == "exact":
            module, operand = module.double(), operand.double()
        operand.requires_grad_()
        result = (compiled(module, driver) if run == "ours" else module)(operand)
        grad = torch.randn_like(result).bfloat16() if grad is None else grad
        result.backward(grad.to(result.dtype))
        found = [operand.grad, *(p.grad for p in module.parameters())]
        gradients.append([g.double() for g in found if g is not None])
    for exact, eager, ours in zip(*gradients, strict=True):
        error, most = (ours - exact).norm(), (eager - exact).norm()
        assert error <= 1.1 * most + 2.0**-12 * exact.norm()


@each_driver
@pytest.mark.parametrize("layer, size, by_taps", LAYERS, ids=name_of)
def test_layers(
    driver: str, unit: None, taken: list[str], layer: Any, size: Any, by_taps: bool
) -> None:
    check(layer, size, driver)
    assert ("narrow_gemm" in taken) is by_taps


@each_driver
@pytest.mark.parametrize("most", [64, 96, 512])
def test_sums_in_parts(
    driver: str, unit: None, taken: list[str], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """With chunks that reach further than the images, and that do not."""
    monkeypatch.setattr(narrow_weight_gradient, "_MOST_TERMS", most)
    monkeypatch.setenv("OCL_INDUCTOR_CACHE", "0")  # plans that were made before took another way
    check(nn.Conv2d(32, 32, 3, padding=1), (3, 32, 14, 14), driver)
    assert "narrow_gemm" in taken
