"""Attention: lowered, computed on every driver in both profiles, against eager."""

from __future__ import annotations

import pytest
import torch
from lowered import DeviceHarness, check_on, skip_where_building_takes_minutes

from ocl_inductor.device.device import Device

aten = torch.ops.aten
FLASH = aten._scaled_dot_product_flash_attention_for_cpu.default
MATH = aten._scaled_dot_product_attention_math.default


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def rand(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*size, dtype=dtype)


def heads(b: int, h: int, s: int, d: int) -> torch.Tensor:
    """(b, h, s, d) with the strides a transformer's projection gives it."""
    return rand(b, s, h, d).transpose(1, 2)


def test_flash_attention(on: tuple[Device, str]) -> None:
    skip_where_building_takes_minutes(on)
    q, k, v = heads(2, 3, 20, 16), heads(2, 3, 27, 16), heads(2, 3, 27, 16)
    check_on(*on, FLASH, q, k, v)
    check_on(*on, FLASH, q, k, v, is_causal=True)
    mask = rand(2, 1, 20, 27)
    mask[0, 0, 3] = float("-inf")
    mask[1, 0, :, 5:] = float("-inf")
    check_on(*on, FLASH, q, k, v, attn_mask=mask, scale=0.3)
    check_on(*on, FLASH, rand(1, 2, 33, 64), rand(1, 2, 17, 64), rand(1, 2, 17, 64), is_causal=True)
    low = [t.to(torch.bfloat16) for t in (q, k, v)]
    check_on(*on, FLASH, *low, rtol=0.03, atol=0.03)


def test_flash_attention_in_blocks(on: tuple[Device, str]) -> None:
    """More keys than a block, with larger scores in later ones, which scale down what came first;
    head sizes that are no multiple of a vector; the row's logarithm too."""
    skip_where_building_takes_minutes(on)
    q, k, v = heads(1, 2, 37, 20), heads(1, 2, 150, 20), heads(1, 2, 150, 20)[..., :5]
    k *= torch.linspace(0.1, 6, 150)[:, None]
    harness = check_on(*on, FLASH, q, k, k)
    assert harness.templates() == ["attention"]
    check_on(*on, MATH, q, k, v, torch.where(rand(37, 150) > 0, 0.0, -torch.inf))


@pytest.mark.parametrize("width", [4, 8])
def test_flash_attention_of_narrower_machines(on: tuple[Device, str], width: int) -> None:
    if on[1] == "simt":
        pytest.skip("has no width")
    skip_where_building_takes_minutes(on)
    q, k, v = heads(1, 2, 21, 12), heads(1, 2, 9, 12), heads(1, 2, 9, 12)
    check_on(*on, FLASH, q, k, v, vector_width=width, is_causal=True)


def test_flash_attention_of_grouped_queries(on: tuple[Device, str]) -> None:
    """PyTorch hands them to this operator as they are; keys must not be read past their end."""
    skip_where_building_takes_minutes(on)
    q, k, v = heads(2, 6, 20, 16), heads(2, 2, 27, 16), heads(2, 2, 27, 16)
    check_on(*on, FLASH, q, k, v, attn_mask=rand(2, 6, 20, 27))


def test_flash_attention_in_float64(on: tuple[Device, str]) -> None:
    if not on[0].info.fp64:
        pytest.skip("the device has no float64")
    q, k, v = (heads(1, 2, s, 24).double() for s in (19, 70, 70))
    check_on(*on, FLASH, q, k, v, is_causal=True, rtol=1e-12, atol=1e-12)


def test_attention_with_nonfinite_scores(on: tuple[Device, str]) -> None:
    """NaN and infinity stay in their row; rows that see nothing are zero."""
    skip_where_building_takes_minutes(on)
    q, k, v = heads(1, 1, 20, 16), heads(1, 1, 70, 16), heads(1, 1, 70, 16)
    q[0, 0, 3, 0], q[0, 0, 17, 2] = torch.nan, torch.inf
    mask = rand(20, 70)
    mask[5] = -torch.inf
    harness = DeviceHarness(*on)
    out = harness.compute(harness.lower(FLASH, q, k, v, attn_mask=mask))[0]
    bad = out.isnan().any(-1)[0, 0]
    assert bad.nonzero().flatten().tolist() == [3, 17]
    assert (out[0, 0, 5] == 0).all()


def test_attention_math(on: tuple[Device, str]) -> None:
    skip_where_building_takes_minutes(on)
    q, k, v = rand(2, 6, 10, 8), rand(2, 3, 12, 8), rand(2, 3, 12, 8)
    check_on(*on, MATH, q, k, v, enable_gqa=True)
    check_on(*on, MATH, q[:, :3], k, v, rand(10, 12))
    keep = rand(2, 1, 10, 12) > 0
    keep[:, :, 4] = False
    check_on(*on, aten.scaled_dot_product_attention.default, q[:, :3], k, v, keep)
    check_on(
        *on, aten.scaled_dot_product_attention.default, q, k, v, is_causal=True, enable_gqa=True
    )
