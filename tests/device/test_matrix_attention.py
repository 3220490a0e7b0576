"""Attention by a CPU's matrix unit, made to take every shape and mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import agree, compiled, random, two_drivers
from tuned import change_tuned

from ocl_inductor.device.select import select_device
from ocl_inductor.lowering.attention import flash_attention, matrix_attention

each_driver = pytest.mark.parametrize("driver", two_drivers())
sdpa = F.scaled_dot_product_attention
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


@pytest.fixture
def taken(driver: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Blocks to a work-item, for each attention that the unit takes."""
    if not select_device(driver).info.amx:
        pytest.skip("the CPU has no matrix unit (AMX), or the driver does not reach it")
    found: list[int] = []
    real = flash_attention.blocks_for_unit

    def counting(*args: Any) -> int:
        blocks = real(*args)
        if blocks:
            found.append(blocks)
        return blocks

    monkeypatch.setattr(flash_attention, "blocks_for_unit", counting)
    monkeypatch.setenv("OCL_INDUCTOR_CACHE", "0")  # plans that were made before took other ways
    return found


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch, taken: list[int]) -> list[int]:
    """Make the unit take all that it can."""
    change_tuned(monkeypatch, matrix_attention, "matrix_unit_costs", attention_by_vectors=1e9)
    return taken


def operands(*batch: int, m: int, n: int, width: int) -> list[torch.Tensor]:
    return [random(*batch, rows, width) for rows in (m, n, n)]


@each_driver
@pytest.mark.parametrize(
    ("m", "n", "width"), [(197, 197, 64), (70, 300, 96), (31, 33, 128), (5, 600, 32)]
)
def test_shapes(driver: str, m: int, n: int, width: int, always: list[int]) -> None:
    found = operands(2, 3, m=m, n=n, width=width)
    agree(lambda q, k, v: sdpa(q, k, v) * 2, *found, device=driver, **CLOSE)
    assert always


@each_driver
@pytest.mark.parametrize("n", [40, 300])
def test_masks(driver: str, n: int, always: list[int]) -> None:
    q, k, v = operands(2, 2, m=n, n=n, width=32)
    hidden = random(2, 2, n, n).masked_fill(torch.rand(2, 2, n, n) < 0.3, -float("inf"))
    hidden[0, 0, 3] = -float("inf")  # sees nothing
    seen = torch.rand(2, 1, 1, n) < 0.7
    seen[..., 0] = True
    agree(lambda q, k, v: sdpa(q, k, v, is_causal=True), q, k, v, device=driver, **CLOSE)
    agree(
        lambda q, k, v, a: sdpa(q, k, v, attn_mask=a), q, k, v, hidden,
        device=driver, **CLOSE,
    )  # fmt: skip
    agree(lambda q, k, v, a: sdpa(q, k, v, attn_mask=a), q, k, v, seen, device=driver, **CLOSE)
    agree(
        lambda q, k, v, a: sdpa(q, k, v, attn_mask=a, scale=0.3), q, k, v, random(n, n),
        device=driver, **CLOSE,
    )  # fmt: skip
    assert len(always) >= 4


@each_driver
def test_layouts_and_any_number_of_queries(driver: str, always: list[int]) -> None:
    def heads_inside(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2)

    function = compiled(heads_inside, driver, dynamic=None)
    k, v = random(2, 60, 3, 32), random(2, 60, 3, 32)
    for m in (50, 33, 90):
        q = random(2, m, 3, 32)
        torch._dynamo.mark_dynamic(q, 1)
        agree(heads_inside, q, k, v, device=driver, compiled_fn=function, **CLOSE)
    # Keys with unit stride along rows, values along columns of every second number.
    agree(
        lambda q, k, v: sdpa(q, k.transpose(-1, -2), v[..., ::2]),
        random(1, 2, 40, 32), random(1, 2, 32, 70), random(1, 2, 70, 64), device=driver, **CLOSE,
    )  # fmt: skip
    assert len(always) >= 2


@each_driver
def test_gradients(driver: str, always: list[int]) -> None:
    found = [x.requires_grad_() for x in operands(1, 2, m=80, n=80, width=32)]
    weight = random(1, 2, 80, 32)

    def loss(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (sdpa(q, k, v, is_causal=True) * weight).sum()

    ours = torch.autograd.grad(compiled(loss, driver)(*found), found)
    torch.testing.assert_close(ours, torch.autograd.grad(loss(*found), found), **CLOSE)
    assert always


@each_driver
def test_no_farther_from_float64_than_eager_twice(driver: str, always: list[int]) -> None:
    found = operands(2, 4, m=256, n=512, width=64)
    exact = sdpa(*(x.double() for x in found))
    ours, eager = (f(*found) - exact for f in (compiled(sdpa, driver), sdpa))
    assert ours.square().mean().sqrt() < 2 * eager.square().mean().sqrt()
    assert always


@each_driver
def test_numbers_that_the_unit_refuses(driver: str, always: list[int]) -> None:
    q, k, v = operands(1, 3, m=40, n=70, width=32)
    q[0, 0, 3, 5], k[0, 1, 60, 2], v[0, 2, 7, 9] = float("nan"), float("inf"), float("inf")
    agree(sdpa, q, k, v, device=driver, reference=False, **CLOSE)
    q, k, v = operands(1, 1, m=40, n=70, width=32)
    agree(lambda q, k, v: sdpa(q, k, v, scale=1.0), q * 1e-20, k * 1e20, v * 1e-30,
          device=driver, rtol=1e-4, atol=2e-35)  # fmt: skip


@each_driver
def test_what_takes_it(driver: str, taken: list[int]) -> None:
    def units(n: int, width: int, dtype: torch.dtype = torch.float32, **options: Any) -> int:
        taken.clear()
        found = [x.to(dtype) for x in operands(1, 4, m=n, n=n, width=width)]
        compiled(sdpa, driver, **options)(*found)
        return len(taken)

    assert units(256, 64) == 1
    assert units(256, 64, matrix_unit=False) == 0
    assert units(256, 64, torch.float64) == 0
    assert units(256, 40) == 0
    assert units(16, 64) == 0
    assert units(8192, 64) == 0, "keys and values do not stay in a cache"
