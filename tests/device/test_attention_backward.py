"""Gradients of attention through the two kernels that keep no matrix, on every driver."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lowered import DeviceHarness, check_on

from ocl_inductor.device import Device, select_device

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_flash_attention_for_cpu.default
BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
KERNELS = ["attention_backward", "attention_backward"]


@pytest.fixture
def driver(device_name: str) -> tuple[Device, str]:
    device = select_device(device_name)
    if device_name == "oclgrind" or device.info.platform_name == "rusticl":
        pytest.skip("long kernels of wide vectors take minutes there")
    return device, "vector"


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def heads(b: int, h: int, s: int, d: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """As models make them: (b, s, h, d) seen as (b, h, s, d)."""
    return torch.randn(b, s, h, d, dtype=dtype).transpose(1, 2)


def check(
    driver: tuple[Device, str],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    vector_width: int | None = None,
    tolerance: float = 1e-4,
    **options: Any,
) -> DeviceHarness:
    """Against eager's gradients, from eager's output and logarithms of sums."""
    out, logsumexp = FORWARD(q, k, v, 0.0, causal, **options)
    grad = torch.randn_like(out)
    return check_on(
        *driver,
        BACKWARD,
        grad, q, k, v, out, logsumexp, 0.0, causal,
        rtol=tolerance,
        atol=tolerance,
        vector_width=vector_width,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("width", [4, 16])
def test_lengths_that_differ(driver: tuple[Device, str], width: int) -> None:
    """Several blocks and partial ones, and heads that are no multiple of a vector."""
    q, k, v = heads(2, 3, 37, 20), heads(2, 3, 90, 20), heads(2, 3, 90, 20)
    harness = check(driver, q, k, v, vector_width=width, scale=0.3)
    assert harness.templates() == KERNELS


def test_causal(driver: tuple[Device, str]) -> None:
    """More keys than queries, and the reverse: keys that nobody sees have no gradient."""
    for m, n in ((70, 100), (100, 70)):
        q, k, v = heads(1, 2, m, 16), heads(1, 2, n, 16), heads(1, 2, n, 16)
        check(driver, q, k, v, causal=True)


def test_masks(driver: tuple[Device, str]) -> None:
    q, k, v = heads(2, 2, 20, 16), heads(2, 2, 40, 16), heads(2, 2, 40, 16)
    mask = torch.randn(2, 1, 20, 40)
    mask[0, 0, 3] = -torch.inf
    mask[1, 0, :, 7:] = -torch.inf
    check(driver, q, k, v, attn_mask=mask)
    padding = torch.zeros(2, 1, 1, 40)
    padding[1, ..., 30:] = -torch.inf
    check(driver, q, k, v, attn_mask=padding.expand(2, 1, 20, 40))


def test_groups_share_keys(driver: tuple[Device, str]) -> None:
    """The gradient of a key is the sum over the heads of its group."""
    q, k, v = heads(2, 6, 20, 16), heads(2, 2, 27, 16), heads(2, 2, 27, 16)
    harness = check(driver, q, k, v, attn_mask=torch.randn(2, 6, 20, 27))
    assert harness.templates() == KERNELS


def test_in_float64(driver: tuple[Device, str]) -> None:
    if not driver[0].info.fp64:
        pytest.skip("the device has no float64")
    q, k, v = (heads(1, 2, s, 20, torch.float64) for s in (19, 70, 70))
    check(driver, q, k, v, tolerance=1e-12)
