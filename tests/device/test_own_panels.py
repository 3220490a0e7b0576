"""Products of so many rows that each work-item packs the panel of B, or of a weight, it needs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from agreement import agree, compiled, random, two_drivers
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional as F
from tuned import change_tuned

from ocl_inductor.lowering.conv import direct
from ocl_inductor.lowering.matmul import product_template

each_driver = pytest.mark.parametrize("driver", two_drivers())

#: (rows, k, n): whole registers; and none, in k, n or rows, which are no multiple of a tile either.
SIZES = ((1024, 96, 96), (1100, 77, 50), (1031, 70, 131))


@pytest.fixture(autouse=True)
def packed_by_items(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The operands that were left to work-items."""
    left: list[Any] = []
    real = product_template._packed_by_items

    def looking(*args: Any) -> Any:
        found = real(*args)
        left.extend([] if found is None else [found])
        return found

    monkeypatch.setattr(product_template, "_packed_by_items", looking)
    # On any number of cores.
    change_tuned(monkeypatch, product_template, "product_limits", min_rows_of_own_panel=1)
    monkeypatch.setenv("OCL_INDUCTOR_CACHE", "0")
    return left


@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)], ids=str
)
@each_driver
def test_operands_as_they_lie(driver: str, dtype: torch.dtype, packed_by_items: list[Any]) -> None:
    def fn(pairs: Any, wide: Any, batch: Any) -> Any:
        a, b = batch
        found = [(x @ y, x @ z.t()) for x, y, z in pairs]
        return found, pairs[0][0] @ wide[:, 3:99], torch.relu(a @ b + 1), a @ b[:1]

    pairs = [
        (random(m, k, dtype=dtype), random(k, n, dtype=dtype), random(n, k, dtype=dtype))
        for m, k, n in SIZES
    ]
    batch = random(2, 1040, 70, dtype=dtype), random(2, 70, 40, dtype=dtype)
    agree(
        fn, pairs, random(96, 120, dtype=dtype), batch, device=driver, profile="vector",
        matrix_unit=False,
    )  # fmt: skip
    assert len(packed_by_items) == 9


@each_driver
def test_parts_of_long_sums(driver: str, packed_by_items: list[Any]) -> None:
    """Each part packs its own piece of the panel; no multiple of a register."""

    def fn(a: Any, b: Any, across: Any) -> Any:
        return a @ b, torch.relu(a @ across.t() + 1)

    a, b, across = random(140, 17011), random(17011, 20), random(35, 17011)
    agree(
        fn, a, b, across, device=driver, profile="vector", matrix_unit=False, rtol=1e-4, atol=2e-3
    )
    assert len(packed_by_items) == 2


@each_driver
def test_rows_of_symbolic_number(driver: str, packed_by_items: list[Any]) -> None:
    layer = nn.Linear(70, 50).eval()
    model = compiled(layer, driver, dynamic=True, profile="vector", matrix_unit=False)
    reference = copy.deepcopy(layer).double()
    for m in (1030, 7, 2050):
        x = random(m, 70)
        with torch.no_grad():
            want = reference(x.double()).float()
            torch.testing.assert_close(model(x), want, rtol=1e-4, atol=1e-4)
    assert packed_by_items


@each_driver
def test_parameters_are_not_kept_twice(driver: str) -> None:
    """And they are read anew in each call: what a program writes to them counts at once."""
    layer = nn.Linear(128, 160).eval()
    model = compiled(layer, driver, profile="vector", matrix_unit=False)
    x = random(1200, 128)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(model(x), layer(x), rtol=1e-4, atol=1e-4)
            layer.weight += random(160, 128)
    assert counters["opencl"]["prologue_kernels"] == 0


@each_driver
def test_weights_of_convolutions(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taps inside channels and channels inside taps; whole registers, and none; groups."""
    left: list[Any] = []
    real = direct._packed_by_items

    def looking(*args: Any) -> Any:
        left.append(real(*args))
        return left[-1]

    monkeypatch.setattr(direct, "_packed_by_items", looking)

    def fn(pairs: Any, grouped: Any, line: Any) -> Any:
        strided = [F.conv2d(x, w, stride=2, padding=w.shape[-1] // 2) for x, w in pairs]
        return strided, F.conv2d(*grouped, padding=1, groups=3), F.conv1d(*line, padding=1)

    last = torch.channels_last
    pairs = [
        (random(2, 32, 30, 40), random(96, 32, 3, 3)),
        (random(2, 32, 30, 40), random(96, 32, 3, 3).to(memory_format=last)),
        (random(2, 13, 41, 30), random(50, 13, 3, 3)),
        (random(2, 13, 41, 30), random(51, 13, 5, 5).to(memory_format=last)),
        (random(2, 32, 30, 40), random(72, 32, 1, 1)),
        (random(2, 32, 30, 40), random(72, 64, 1, 1)[:, :32]),
    ]
    grouped = random(2, 33, 20, 31), random(66, 11, 3, 3)
    line = random(2, 20, 300), random(33, 20, 4)
    agree(fn, pairs, grouped, line, device=driver, profile="vector", matrix_unit=False)
    assert len(left) == 8 and all(left)


@each_driver
def test_weights_of_convolutions_are_not_kept_twice(driver: str) -> None:
    layer = nn.Conv2d(64, 80, 3, dilation=2).eval()
    model = compiled(layer, driver, profile="vector", matrix_unit=False)
    x = random(2, 64, 41, 40)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(model(x), layer(x), rtol=1e-4, atol=1e-4)
            layer.weight += random(80, 64, 3, 3)
    assert counters["opencl"]["prologue_kernels"] == 0
