"""Attention of a few queries, as in decoding: one kernel, against eager on every driver."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from agreement import agree, random, two_drivers
from evaluate import make_device
from lowered import check_on
from torch.nn import functional as F

from ocl_inductor.device.device import Device
from ocl_inductor.lowering.attention.decode_attention import choose_splits

FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
SDPA = torch.ops.aten.scaled_dot_product_attention.default


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def heads(b: int, h: int, s: int, d: int) -> torch.Tensor:
    """As models make them: (b, s, h, d) seen as (b, h, s, d)."""
    return torch.randn(b, s, h, d).transpose(1, 2)


@pytest.mark.parametrize("width", [pytest.param(4, marks=pytest.mark.slow), 16])
def test_decoding(vector_driver: tuple[Device, str], width: int) -> None:
    """Whole and partial blocks of keys, and heads that are no multiple of a vector."""
    for n, d, v_d in ((130, 24, 40), (1, 20, 16)):
        q, k, v = heads(2, 3, 1, d), heads(2, 3, n, d), heads(2, 3, n, v_d)
        harness = check_on(*vector_driver, SDPA, q, k, v, vector_width=width)
        assert harness.templates() == ["decode_attention"]


def test_several_queries_and_groups(vector_driver: tuple[Device, str]) -> None:
    q, k, v = heads(2, 6, 2, 20), heads(2, 2, 70, 20), heads(2, 2, 70, 20)
    mask = torch.randn(2, 6, 2, 70)
    mask[0, 4, 1] = -torch.inf
    mask[1, :, :, 9:] = -torch.inf
    harness = check_on(*vector_driver, FLASH, q, k, v, attn_mask=mask, scale=0.7)
    assert harness.templates() == ["decode_attention"]


@pytest.mark.slow
def test_causal_and_in_float64(vector_driver: tuple[Device, str]) -> None:
    q, k, v = heads(2, 6, 2, 20), heads(2, 2, 70, 20), heads(2, 2, 70, 20)
    check_on(*vector_driver, FLASH, q, k, v, is_causal=True)
    if vector_driver[0].info.fp64:
        wide = (t.double() for t in (q, k, v))
        check_on(*vector_driver, FLASH, *wide, rtol=1e-12, atol=1e-12)


def test_keys_in_pieces(vector_driver: tuple[Device, str]) -> None:
    """One head: its keys are shared out. Larger scores come later; the last piece is hidden."""
    device = vector_driver[0]
    if device.info.compute_units < 2:
        pytest.skip("one core takes all keys")
    q, k, v = heads(1, 1, 2, 20), heads(1, 1, 1100, 20), heads(1, 1, 1100, 20)
    k *= torch.linspace(0.1, 6, 1100)[:, None]
    mask = torch.zeros(2, 1100)
    mask[0, 500:] = -torch.inf
    harness = check_on(*vector_driver, FLASH, q, k, v, attn_mask=mask)
    assert harness.templates() == ["decode_attention"]
    mask[1] = -torch.inf
    check_on(*vector_driver, FLASH, q, k, v, attn_mask=mask)


@pytest.mark.parametrize("driver_name", two_drivers())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cache_of_keys(driver_name: str, dtype: torch.dtype) -> None:
    """A decoder's step: keys of a half type are read where they lie, without a copy."""

    def step(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return torch.relu(out + 1)

    q = random(1, 4, 1, 16, dtype=dtype, seed=1)
    k, v = (random(1, 2, 90, 16, dtype=dtype, seed=s) for s in (2, 3))
    seen = (torch.arange(90) < 77)[None, None, None]
    with torch.no_grad():
        agree(step, q, k, v, seen, device=driver_name, profile="vector")


@pytest.mark.parametrize(
    "heads,keys,units,splits",
    [(12, 1000, 2, 1), (1, 255, 2, 1), (1, 10000, 2, 2), (3, 600, 2, 2), (1, 600, 64, 2),
     (8, 100000, 64, 8), (8, 1000, 6, 3), (300, 1000, 64, 1)],
)  # fmt: skip
def test_pieces_keep_the_cores_busy(heads: int, keys: int, units: int, splits: int) -> None:
    device = dataclasses.replace(make_device(), compute_units=units)
    assert choose_splits(device, heads, keys) == splits
