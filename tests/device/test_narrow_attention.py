"""Attention of bfloat16 by a CPU's matrix unit: every mask, size and layout it may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import compiled, two_drivers
from bf16_checks import narrow
from torch.nn import functional as F

from ocl_inductor.device.select import select_device

each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))
attend = F.scaled_dot_product_attention
#: Batch, heads, rows, width.
SIZES = [(2, 3, 197, 64), (1, 2, 33, 24), (2, 2, 40, 80), (1, 2, 7, 16), (1, 1, 600, 33)]
each_size = pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))


@pytest.fixture
def taken(driver: str, taken: list[str]) -> list[str]:
    """The templates that are lowered to, where there is a unit."""
    if not select_device(driver).info.amx:
        pytest.skip("the CPU has no matrix unit (AMX), or the driver does not reach it")
    return taken


def check(function: Callable[..., Any], *args: torch.Tensor, driver: str) -> None:
    """No further from float64 than eager, which rounds the weights to bfloat16 as well.

    Eager's own error depends on the blocks of its sums: half as much again is allowed.
    """
    wide = [a.double() if a.is_floating_point() else a for a in args]
    got, exact, eager = compiled(function, driver)(*args), function(*wide), function(*args)
    assert got.dtype is torch.bfloat16 and got.shape == exact.shape
    error, most = (got.double() - exact).norm(), (eager.double() - exact).norm()
    assert error <= 1.5 * most, f"{error / most:.2f} times eager's error"


@each_driver
@each_size
def test_masks(driver: str, taken: list[str], size: tuple[int, ...]) -> None:
    batch, _, rows, _ = size
    q, k, v = narrow(*size), narrow(*size), narrow(*size)
    keep = torch.rand(rows, rows) > 0.3
    keep[:, 0] = True
    check(attend, q, k, v, driver=driver)
    check(lambda q, k, v: attend(q, k, v, is_causal=True), q, k, v, driver=driver)
    check(lambda q, k, v, m: attend(q, k, v, attn_mask=m), q, k, v, keep, driver=driver)
    mask = narrow(batch, 1, 1, rows)
    check(lambda q, k, v, m: attend(q, k, v, attn_mask=m), q, k, v, mask, driver=driver)
    assert taken.count("narrow_attention") == 4


@each_driver
def test_layouts(driver: str, taken: list[str]) -> None:
    x = narrow(2, 50, 3, 3, 64)

    def of_one_projection(x: torch.Tensor) -> torch.Tensor:
        q, k, v = x.permute(2, 0, 3, 1, 4)
        return attend(q, k, v, scale=0.37).transpose(1, 2)

    check(of_one_projection, x, driver=driver)
    check(attend, narrow(2, 3, 50, 64), narrow(2, 3, 70, 64), narrow(2, 3, 70, 64), driver=driver)
    odd = narrow(2, 3, 90, 65)[:, :, 3:, 1:]
    check(attend, narrow(2, 3, 33, 64), odd, odd, driver=driver)
    assert taken.count("narrow_attention") == 3


@each_driver
def test_what_is_masked_or_not_a_number(driver: str, taken: list[str]) -> None:
    """A row that sees nothing is 0, and NaN stays in the rows that see it."""
    q, k, v = narrow(1, 2, 40, 32), narrow(1, 2, 40, 32), narrow(1, 2, 40, 32)
    keep = torch.ones(40, 40, dtype=torch.bool).tril()
    keep[5] = False
    got = compiled(lambda *a: attend(*a[:3], attn_mask=a[3]), driver)(q, k, v, keep)
    assert (got[:, :, 5] == 0).all() and not got.isnan().any()
    q[0, 1, 7, 3] = float("nan")
    got = compiled(lambda *a: attend(*a[:3], attn_mask=a[3]), driver)(q, k, v, keep)
    assert got[0, 1, 7].isnan().all()
    assert not got[0, 1, 8:].isnan().any() and not got[0, 0].isnan().any()
    assert "narrow_attention" in taken


@each_driver
def test_gradients(driver: str, taken: list[str]) -> None:
    operands = [narrow(2, 3, 70, 64).requires_grad_() for _ in range(3)]
    exact = [x.detach().double().requires_grad_() for x in operands]
    attend(*exact, is_causal=True).sin().sum().backward()
    errors = []
    for run in (attend, compiled(lambda q, k, v: attend(q, k, v, is_causal=True), driver)):
        for x in operands:
            x.grad = None
        got = run(*operands, is_causal=True) if run is attend else run(*operands)
        got.sin().sum().backward()
        errors.append(
            [
                ((x.grad.double() - y.grad).norm() / y.grad.norm()).item()
                for x, y in zip(operands, exact, strict=True)
            ]
        )
    assert all(ours <= 1.5 * theirs for theirs, ours in zip(*errors, strict=True))
    assert "narrow_attention" in taken
