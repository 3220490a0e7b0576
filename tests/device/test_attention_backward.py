"""Gradients of attention through the two kernels that keep no matrix, on every driver."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from lowered import DeviceHarness, check_on

from ocl_inductor.device.device import Device

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_flash_attention_for_cpu.default
BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
KERNELS = ["attention_backward", "attention_backward"]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def heads(b: int, h: int, s: int, d: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """As models make them: (b, s, h, d) seen as (b, h, s, d)."""
    return torch.randn(b, s, h, d, dtype=dtype).transpose(1, 2)


def check(
    vector_driver: tuple[Device, str],
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
        *vector_driver,
        BACKWARD,
        grad, q, k, v, out, logsumexp, 0.0, causal,
        rtol=tolerance,
        atol=tolerance,
        vector_width=vector_width,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("width", [pytest.param(4, marks=pytest.mark.slow), 16])
def test_lengths_that_differ(vector_driver: tuple[Device, str], width: int) -> None:
    """Several blocks and partial ones, and heads that are no multiple of a vector."""
    q, k, v = heads(2, 3, 37, 20), heads(2, 3, 90, 20), heads(2, 3, 90, 20)
    harness = check(vector_driver, q, k, v, vector_width=width, scale=0.3)
    assert harness.templates() == KERNELS


@pytest.mark.parametrize("m,n", [(70, 100), pytest.param(100, 70, marks=pytest.mark.slow)])
def test_causal(vector_driver: tuple[Device, str], m: int, n: int) -> None:
    """More keys than queries, and the reverse: keys that nobody sees have no gradient."""
    q, k, v = heads(1, 2, m, 16), heads(1, 2, n, 16), heads(1, 2, n, 16)
    check(vector_driver, q, k, v, causal=True)


def test_masks(vector_driver: tuple[Device, str]) -> None:
    q, k, v = heads(2, 2, 20, 16), heads(2, 2, 40, 16), heads(2, 2, 40, 16)
    mask = torch.randn(2, 1, 20, 40)
    mask[0, 0, 3] = -torch.inf
    mask[1, 0, :, 7:] = -torch.inf
    check(vector_driver, q, k, v, attn_mask=mask)


@pytest.mark.slow
def test_padding(vector_driver: tuple[Device, str]) -> None:
    q, k, v = heads(2, 2, 20, 16), heads(2, 2, 40, 16), heads(2, 2, 40, 16)
    padding = torch.zeros(2, 1, 1, 40)
    padding[1, ..., 30:] = -torch.inf
    check(vector_driver, q, k, v, attn_mask=padding.expand(2, 1, 20, 40))


def test_groups_share_keys(vector_driver: tuple[Device, str]) -> None:
    """The gradient of a key is the sum over the heads of its group."""
    q, k, v = heads(2, 6, 20, 16), heads(2, 2, 27, 16), heads(2, 2, 27, 16)
    harness = check(vector_driver, q, k, v, attn_mask=torch.randn(2, 6, 20, 27))
    assert harness.templates() == KERNELS


@pytest.mark.slow
def test_in_float64(vector_driver: tuple[Device, str]) -> None:
    if not vector_driver[0].info.fp64:
        pytest.skip("the device has no float64")
    q, k, v = (heads(1, 2, s, 20, torch.float64) for s in (19, 70, 70))
    check(vector_driver, q, k, v, tolerance=1e-12)


class SelfAttention(torch.nn.Module):
    """With a layer each for query, key and value."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (f(x).view(2, 24, 4, 8).transpose(1, 2) for f in self.layers[:3])
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.layers[3](out.transpose(1, 2).reshape(x.shape))


def test_gradients_by_products_lie_as_the_operands(plans: list[Any]) -> None:
    """On a GPU: the layers before attention read each gradient in place, without a copy."""
    layer = SelfAttention()
    exact = copy.deepcopy(layer).double()
    x = torch.randn(2, 24, 32)
    options = {"device": "cpu", "target": "h200"}
    torch.compile(layer, backend="opencl", options=options)(x).square().sum().backward()
    exact(x.double()).square().sum().backward()
    for ours, theirs in zip(layer.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad.float(), rtol=1e-4, atol=1e-4)
    _, backward = plans
    kernels = [backward.kernels[s.kernel].name for s in backward.steps]
    assert sum(name.startswith("gemm_scaled_dot_product") for name in kernels) == 5
    assert not [name for name in kernels if name.startswith("pointwise")]
