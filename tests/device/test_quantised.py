"""Quantised operators against eager, on two drivers in both profiles: integers exactly."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # makes the operators
from agreement import PROFILES, agree, two_drivers
from torch import nn

aten, exported = torch.ops.aten, torch.ops.quantized_decomposed

_PAIRS = [(d, p) for d in two_drivers() for p in PROFILES]
everywhere = pytest.mark.parametrize(
    "driver,profile",
    [_PAIRS[0], *(pytest.param(*p, marks=pytest.mark.slow) for p in _PAIRS[1:])],
)
#: Numbers that a conversion to integers treats in its own way, and ties.
ODD = torch.tensor(
    [0.05, 0.15, -0.25, 1e20, -1e20, 3e9, -3e9, -0.0, torch.nan, torch.inf, -torch.inf]
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def check(fn: Callable[..., Any], *args: Any, driver: str, profile: str, **options: Any) -> None:
    agree(fn, *args, device=driver, profile=profile, fallback="error", reference=False, **options)


@everywhere
def test_fake_quantisation(driver: str, profile: str) -> None:
    def fn(x: Any, scale: Any, zero: Any, scales: Any, zeros: Any) -> Any:
        results = []
        for y in (x, x.half(), x.bfloat16(), x.double()):
            results.append(aten.fake_quantize_per_tensor_affine_cachemask(y, 0.1, 3, 0, 255))
            results.append(torch.fake_quantize_per_channel_affine(y, scales, zeros, 1, -128, 127))
        results.append(torch.fake_quantize_per_tensor_affine(x, scale, zero, -8, 7))
        for on in (0, 1):
            switch = torch.full((1,), on)
            results.append(
                aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
                    x, scale, zero, switch, -128, 127
                )
            )
        return results

    x = torch.randn(40, 11) * 10
    x[0] = ODD
    scales, zeros = torch.rand(11) + 0.01, torch.randint(-9, 10, (11,), dtype=torch.int32)
    zero = torch.tensor([2], dtype=torch.int32)
    check(fn, x, torch.tensor([0.37]), zero, scales, zeros, driver=driver, profile=profile)


@everywhere
def test_gradients_stop_outside_of_the_range(driver: str, profile: str) -> None:
    def fn(x: torch.Tensor, scales: Any, zeros: Any) -> Any:
        x.requires_grad_()
        y = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
        z = torch.fake_quantize_per_channel_affine(x * 0.25, scales, zeros, 0, -8, 7)
        return torch.autograd.grad((y * y + z).sum(), x)

    args = torch.randn(30, 7) * 10, torch.rand(30) * 0.2, torch.zeros(30, dtype=torch.int32)
    forward = torch.compile(fn, backend="opencl", options={"device": driver, "profile": profile})
    assert torch.equal(forward(*args)[0], fn(*args)[0])


@everywhere
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("channels", [1, 6])
def test_observing_and_quantising_at_once(
    channels: int, symmetric: bool, driver: str, profile: str
) -> None:
    """Results and statistics, digit for digit: tiny numbers, nothing observed, switched off."""

    def fn(x: Any, *state: Any) -> Any:
        observer_on, fake_quant_on, low, high, scale, zero = state
        bounds = (-128, 127) if symmetric else (0, 127)
        per_row = channels > 1
        y = torch.fused_moving_avg_obs_fake_quant(
            x,
            observer_on,
            fake_quant_on,
            low,
            high,
            scale,
            zero,
            0.01,
            *bounds,
            0,
            per_row,
            symmetric,
        )
        return y * 1

    def statistics(x: torch.Tensor, observed: bool) -> tuple[torch.Tensor, ...]:
        infinite = torch.full((channels,), torch.inf)
        low = -torch.rand(channels) * x.abs().max() if observed else infinite
        high = torch.rand(channels) * x.abs().max() if observed else -infinite
        if channels == 1:  # as MovingAverageMinMaxObserver has them
            low, high = low[0], high[0]
        return low, high, torch.rand(channels), torch.randint(9, (channels,), dtype=torch.int32)

    x = torch.randn(6, 35)
    switches = [(1, 1, True), (1, 1, False), (0, 1, True), (1, 0, True)]
    inputs = [x, x.abs(), -x.abs(), x + 10, x * 1e-7, x * 1e-7 + 1e-7, x * 0, x * 1e30]
    for k, x in enumerate([*inputs, *inputs[:3]]):
        on, quantised, observed = switches[k % 2 if k < len(inputs) else k - len(inputs) + 1]
        flags = torch.tensor([on]), torch.tensor([quantised])
        check(
            fn, x, *flags, *statistics(x, observed), driver=driver, profile=profile, rtol=0, atol=0
        )


@everywhere
@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
@pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max")
def test_quantisation_aware_training(driver: str, profile: str) -> None:
    """Two steps of a prepared network: one graph each way, gradients and statistics as eager's."""
    from torch.ao.quantization import get_default_qat_qconfig_mapping
    from torch.ao.quantization.quantize_fx import prepare_qat_fx

    class Prepared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = nn.Sequential(
                nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)
            )
            self.network = prepare_qat_fx(
                layers.train(),
                get_default_qat_qconfig_mapping("fbgemm"),
                (torch.randn(2, 3, 9, 9),),
            )
            self.network(torch.randn(2, 3, 9, 9))  # the shapes of the statistics are made here

        @torch._dynamo.dont_skip_tracing
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.network(x)

    model = Prepared()
    ours = copy.deepcopy(model)
    options = {"device": driver, "profile": profile, "fallback": "error"}
    step = torch.compile(ours, backend="opencl", options=options, fullgraph=True)
    for _ in range(2):
        x = torch.randn(2, 3, 9, 9)
        for module, call in ((model, model), (ours, step)):
            module.zero_grad()
            call(x).pow(3).sum().backward()
    for expected, actual in zip(model.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(actual.grad, expected.grad, rtol=1e-4, atol=1e-4)
    for expected, actual in zip(model.buffers(), ours.buffers(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@everywhere
def test_exported_operators(driver: str, profile: str) -> None:
    def fn(x: Any, q: Any, scale: Any, zero: Any, scales: Any, zeros: Any) -> Any:
        i8, bounds = torch.int8, (-128, 127)
        wide = scale.double()
        token = exported.choose_qparams_per_token(x, i8)
        return (
            exported.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8),
            exported.quantize_per_tensor(x, scale, zero, *bounds, i8),
            exported.quantize_per_tensor(x, wide, zero, *bounds, i8),
            exported.dequantize_per_tensor(q, 0.1, 3, *bounds, i8),
            exported.dequantize_per_tensor(q, scale, zero, *bounds, i8),
            exported.dequantize_per_tensor(q, 0.1, 3, *bounds, i8, out_dtype=torch.bfloat16),
            exported.quantize_per_channel(x, scales, zeros, 1, *bounds, i8),
            exported.dequantize_per_channel(q, scales, zeros, 1, *bounds, i8),
            exported.dequantize_per_channel(q, scales, None, 1, *bounds, i8),
            exported.choose_qparams(x, 0, 255, 1e-5, torch.uint8),
            exported.choose_qparams(x.relu(), *bounds, 1e-5, i8),
            exported.choose_qparams_symmetric(x, *bounds, 1e-5, i8),
            exported.choose_qparams_symmetric(x * 0, 0, 255, 1e-5, torch.uint8),
            token,
            exported.choose_qparams_per_token_asymmetric(x, i8),
            exported.quantize_per_token(x, *token, *bounds, i8),
            exported.dequantize_per_token(q, *token, *bounds, i8, torch.float32),
            exported.dequantize_per_channel_group(
                q, x[:, :2].abs(), None, *bounds, i8, 6, torch.float32
            ),
            exported.convert_element_type.no_fuse(q, torch.float32),
        )

    x, q = torch.randn(10, 12) * 20, torch.randint(-128, 128, (10, 12)).to(torch.int8)
    zero, zeros = torch.tensor([5]), torch.randint(-9, 10, (12,))
    args = x, q, torch.tensor([0.173]), zero, torch.rand(12) + 0.01, zeros
    check(fn, *args, driver=driver, profile=profile)


@pytest.mark.parametrize("driver", two_drivers())
def test_groups_refuse_nan(driver: str) -> None:
    """The check runs on the host, where checks belong."""

    def fn(x: Any, scales: Any, zeros: Any) -> Any:
        return exported.quantize_per_channel_group(x, scales, zeros, -8, 7, torch.int8, 4)

    x, scales, zeros = torch.randn(6, 8), torch.rand(6, 2) + 0.1, torch.zeros(6, 2)
    ours = torch.compile(fn, backend="opencl", options={"device": driver})
    assert torch.equal(ours(x, scales, zeros), fn(x, scales, zeros))
    x[3, 3] = torch.nan
    with pytest.raises(RuntimeError, match="NaN"):
        ours(x, scales, zeros)


@functools.cache
def takes_unsigned_bytes() -> bool:
    """Whether ``_int_mm`` has uint8 on the left in a graph: not before 2.12."""
    a, b = (torch.empty(32, 32, dtype=d, device="meta") for d in (torch.uint8, torch.int8))
    try:
        torch._int_mm(a, b)
    except RuntimeError:
        return False
    return True


def int8(*size: int) -> torch.Tensor:
    """With the extremes, whose sums are the largest."""
    x = torch.randint(-128, 128, size).to(torch.int8)
    x[..., : size[-1] // 2] = -128
    return x


@everywhere
def test_products_of_bytes_are_exact(driver: str, profile: str) -> None:
    unsigned = takes_unsigned_bytes()

    def fn(a: Any, b: Any, long: Any, wide: Any, u: Any) -> Any:
        return (
            torch._int_mm(a, b),
            torch._int_mm(long, wide.t()),
            torch._int_mm(a[:, :0], b[:0]),
            torch._int_mm(a[:1], b),
            *([torch._int_mm(u, b)] if unsigned else []),
        )

    a, b = int8(33, 40), int8(40, 24)
    u = torch.full((33, 40), 255, dtype=torch.uint8)
    check(fn, a, b, int8(9, 2500), int8(17, 2500), u, driver=driver, profile=profile)


@everywhere
def test_a_layer_with_dynamic_scales(driver: str, profile: str) -> None:
    """Rows quantised as they come, int8 weights: what torchao makes of a linear layer."""
    weight, scales, bias = int8(48, 64), torch.rand(48) / 100, torch.randn(48)

    def fn(x: torch.Tensor) -> Any:
        scale = (x.abs().amax(-1, keepdim=True).float() / 127).clamp(min=1e-5)
        q = torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)
        return torch._int_mm(q, weight.t()) * scale * scales + bias

    check(fn, torch.randn(20, 64), driver=driver, profile=profile)


@everywhere
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_of_bytes(driver: str, profile: str, dtype: torch.dtype) -> None:
    def fn(x: Any, w: Any, scales: Any) -> Any:
        return aten._weight_int8pack_mm(x, w, scales), aten._weight_int8pack_mm(x[:1], w, scales)

    x, scales = torch.randn(12, 64).to(dtype), (torch.rand(32) / 10).to(dtype)
    check(fn, x, int8(32, 64), scales, driver=driver, profile=profile)
