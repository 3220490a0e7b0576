"""Products and convolutions of bytes, and of affine functions of them, by vpdpbusd: exact sums."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import agreement
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from agreement import two_drivers
from bf16_checks import CONVOLUTIONS, name_of
from byte_checks import LIMITS, check_products, signed, unsigned, whole
from torch import Tensor, nn
from torch.nn import functional as F

from ocl_inductor.device.select import select_device

each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))
quantised = torch.ops.quantized_decomposed

# A matrix unit would take them all.
compiled = functools.partial(agreement.compiled, matrix_unit=False)


@pytest.fixture
def taken(driver: str, taken: list[str]) -> list[str]:
    """The templates that are lowered to, where the processor has the instruction."""
    if not select_device(driver).info.int8_dot:
        pytest.skip("the CPU has no AVX512-VNNI, or the driver does not reach it")
    return taken


@each_driver
@pytest.mark.parametrize(
    "m, k, n", [(64, 64, 64), (7, 36, 9), (37, 72, 45), (131, 772, 50), (20, 2052, 130)]
)
def test_products_of_integers(driver: str, taken: list[str], m: int, k: int, n: int) -> None:
    count = check_products(lambda f: compiled(f, driver), m, k, n)
    assert taken == ["dot_gemm"] * count


@each_driver
def test_rows_of_any_number(driver: str, taken: list[str]) -> None:
    run, b = compiled(torch._int_mm, driver, dynamic=None), signed(64, 50)
    for rows in (70, 33, 6, 5, 200):
        a = signed(rows, 64)
        torch._dynamo.mark_dynamic(a, 0)
        assert torch.equal(run(a, b), (a.long() @ b.long()).int())
    assert taken.count("dot_gemm") == 1, "not once for all numbers of rows"


# -- affine functions of bytes -------------------------------------------------------------


def by_tensor(q: Tensor, scale: float = 0.037, zero: int = 7) -> Tensor:
    return quantised.dequantize_per_tensor(q, scale, zero, *LIMITS[q.dtype], q.dtype)


def by_channel(q: Tensor, scales: Tensor, zeros: Tensor | None) -> Tensor:
    return quantised.dequantize_per_channel(q, scales, zeros, 0, *LIMITS[q.dtype], q.dtype)


def weights(*size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of a layer: bytes, and a scale and a zero for each row."""
    return signed(*size), torch.rand(size[0]) / 100 + 1e-3, torch.randint(-9, 10, (size[0],))


def check(function: Callable[..., Tensor], *args: Tensor, driver: str, **options: Any) -> None:
    """The result is the exact one but for the few roundings after its sum of integers."""
    got = compiled(function, driver, **options)(*args)
    exact = _in_float64(function, args)
    assert got.dtype is torch.float32 and got.shape == exact.shape
    off, largest = (got.double() - exact).abs(), exact.abs().max()
    assert (off <= 2.0**-22 * largest + 2.0**-21 * exact.abs()).all(), f"{off.max()} of {largest}"


def _in_float64(function: Callable[..., Tensor], args: tuple[Tensor, ...]) -> Tensor:
    """The same with dequantisation in float64, whose scales are float32's."""

    def by_tensor64(q: Tensor, scale: float = 0.037, zero: int = 7) -> Tensor:
        return (q.double() - zero) * torch.tensor(scale).double()

    def by_channel64(q: Tensor, scales: Tensor, zeros: Tensor | None) -> Tensor:
        shape = (-1, *[1] * (q.ndim - 1))
        shifted = q.double() - (0 if zeros is None else zeros.reshape(shape))
        return shifted * scales.double().reshape(shape)

    names = {"by_tensor": by_tensor64, "by_channel": by_channel64}
    wide = [x.double() if x.is_floating_point() else x for x in args]
    with pytest.MonkeyPatch.context() as patch:
        for name, f in names.items():
            patch.setitem(globals(), name, f)
        return function(*wide)


@each_driver
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
@pytest.mark.parametrize("m, k, n", [(64, 64, 64), (37, 72, 45), (131, 772, 50)])
def test_a_linear_layer(
    driver: str, taken: list[str], dtype: torch.dtype, m: int, k: int, n: int
) -> None:
    def layer(x: Tensor, bias: Tensor, *weight: Tensor) -> Tensor:
        return F.linear(by_tensor(x), by_channel(*weight), bias)

    def symmetric(x: Tensor, w: Tensor, scales: Tensor) -> Tensor:
        return F.linear(by_tensor(x, zero=0), by_channel(w, scales, None)).relu()

    x, weight = whole(dtype, 2, m, k), weights(n, k)
    check(layer, x, torch.randn(n), *weight, driver=driver)
    check(symmetric, x, *weight[:2], driver=driver)
    assert taken == ["dot_gemm"] * 2


@each_driver
def test_scales_and_zeros_of_rows(driver: str, taken: list[str]) -> None:
    """Each row with a scale and a zero of its own, as dynamic quantisation has them."""

    def layer(x: Tensor, scale: Tensor, zero: Tensor, *weight: Tensor) -> Tensor:
        return ((x.to(scale.dtype) - zero.to(scale.dtype)) * scale) @ by_channel(*weight).t()

    rows = torch.rand(40, 1) / 10, torch.randint(-9, 10, (40, 1))
    check(layer, signed(40, 64), *rows, *weights(48, 64), driver=driver)
    assert taken == ["dot_gemm"]


@each_driver
def test_zeros_far_from_bytes(driver: str, taken: list[str]) -> None:
    """Tensors of zeros may hold any number: integers of 32 bits would not hold the sums."""

    def layer(x: Tensor, zero: Tensor, w: Tensor, zeros: Tensor, scale: Tensor) -> Tensor:
        wide = scale.dtype
        return ((x.to(wide) - zero.to(wide)) * scale) @ (w.to(wide) - zeros.to(wide)).t()

    zero, zeros = (torch.randint(-(10**6), 10**6, (n, 1)) for n in (40, 48))
    zeros[::2] = 0
    args = signed(40, 64), zero, signed(48, 64), zeros, torch.tensor(0.1)
    check(layer, *args, driver=driver)
    assert taken == ["dot_gemm"]

    def constant(x: Tensor, w: Tensor) -> Tensor:
        return by_tensor(x, zero=300) @ by_tensor(w).t()

    got = compiled(constant, driver)(args[0], args[2]).double()
    exact = _in_float64(constant, (args[0], args[2]))
    assert (got - exact).abs().max() <= 2.0**-20 * exact.abs().max()
    assert taken.count("dot_gemm") == 1, "no number of a byte"


@each_driver
def test_differences_that_wrap(driver: str, taken: list[str]) -> None:
    """Of bytes from bytes, as eager has them."""

    def layer(x: Tensor, zero: Tensor, w: Tensor) -> Tensor:
        return (x - zero).float() @ w.float().t()

    args = signed(40, 64), torch.tensor(100, dtype=torch.int8), signed(48, 64)
    exact = (args[0] - args[1]).long() @ args[2].t().long()
    assert torch.equal(compiled(layer, driver)(*args), exact.float())
    assert taken == ["dot_gemm"]


@each_driver
def test_padding_without_a_byte_for_0(driver: str, taken: list[str]) -> None:
    """Zeros that the data hold, of which padding knows nothing."""

    def convolve(x: Tensor, zero: Tensor, w: Tensor, scale: Tensor, padding: int) -> Tensor:
        shifted = (x.to(scale.dtype) - zero.to(scale.dtype)) * scale
        return F.conv2d(shifted, by_tensor(w, zero=0), padding=padding)

    args = unsigned(2, 16, 9, 8), torch.tensor(1000), signed(20, 16, 3, 3), torch.tensor(0.1)
    for padding in (1, 0):
        function = functools.partial(convolve, padding=padding)
        got, exact = compiled(function, driver)(*args).double(), _in_float64(function, args)
        assert (got - exact).abs().max() <= 2.0**-18 * exact.abs().max()
    assert taken.count("dot_conv") == 1


@each_driver
def test_batches(driver: str, taken: list[str]) -> None:
    def product(a: Tensor, b: Tensor) -> Tensor:
        return by_tensor(a) @ by_tensor(b, 0.5, -3).mT

    check(product, unsigned(3, 2, 33, 64), signed(3, 2, 40, 64), driver=driver)
    check(product, unsigned(3, 1, 33, 64), signed(5, 40, 64), driver=driver)
    assert taken == ["dot_gemm"] * 2


@each_driver
@pytest.mark.parametrize("layer, size", CONVOLUTIONS[:-1], ids=name_of)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_convolutions(
    driver: str, taken: list[str], layer: Any, size: Any, dtype: torch.dtype
) -> None:
    """The input's zero, not 0, is what padding holds."""
    convolution = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(size)]

    def convolve(x: Tensor, *weight: Tensor) -> Tensor:
        w = by_channel(*weight)
        return convolution(
            by_tensor(x), w, None, layer.stride, layer.padding, layer.dilation, layer.groups
        )

    x, weight = whole(dtype, *size), weights(*layer.weight.shape)
    check(convolve, x, *weight, driver=driver)
    assert taken == ["dot_conv"]


class Layers(nn.Module):
    """Two quantised convolutions and a classifier, as export quantisation leaves them: integers
    between the layers, one of them read twice."""

    def __init__(self) -> None:
        super().__init__()
        for name, size in {"a": (20, 3, 3, 3), "b": (20, 20, 3, 3), "c": (20, 20, 1, 1)}.items():
            for part, tensor in zip(("", "_scales", "_zeros"), weights(*size), strict=True):
                self.register_buffer(name + part, tensor)

    def weight(self, name: str) -> Tensor:
        return by_channel(*(getattr(self, name + part) for part in ("", "_scales", "_zeros")))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stored(x, 0.03, 120)
        x = self.stored(F.conv2d(x, self.weight("a"), padding=1, stride=2).relu(), 0.05, 0)
        y = self.stored(F.conv2d(x, self.weight("b"), padding=1).relu(), 0.2, 3)
        return self.stored(F.conv2d(y, self.weight("c")) + x, 0.5, 100)

    @staticmethod
    def stored(x: Tensor, scale: float, zero: int) -> Tensor:
        q = quantised.quantize_per_tensor(x, scale, zero, 0, 255, torch.uint8)
        return quantised.dequantize_per_tensor(q, scale, zero, 0, 255, torch.uint8)


@each_driver
def test_a_network_keeps_bytes_between_its_layers(driver: str, taken: list[str]) -> None:
    network, x = Layers().eval(), torch.randn(2, 3, 24, 20)
    run = compiled(network, driver, dynamic=None)
    with torch.no_grad():
        for images in (2, 3):
            x = torch.randn(images, 3, 24, 20)
            torch._dynamo.mark_dynamic(x, 0)
            got, want = run(x), network(x)
            # Eager's sums are rounded, so that a number between two steps may go to the other.
            steps = ((got - want) / 0.5).abs()
            assert steps.max() <= 1 and (steps > 0.5).float().mean() < 0.01
    assert taken == ["dot_conv", "dot_conv", "dot_gemm"]


@each_driver
def test_what_is_not_a_sum_of_bytes_goes_another_way(driver: str, taken: list[str]) -> None:
    def groups(x: Tensor, w: Tensor, scales: Tensor) -> Tensor:
        wide = w.to(scales.dtype).reshape(-1, 8, 32) * scales.reshape(-1, 8, 1)
        return by_tensor(x) @ wide.reshape(-1, 256).t()

    def floats(x: Tensor, *weight: Tensor) -> Tensor:
        return x @ by_channel(*weight).t()

    def fractions(x: Tensor, w: Tensor, zero: Tensor) -> Tensor:
        return (x.to(zero.dtype) - zero) @ by_tensor(w).t()

    weight, scales, _ = weights(48, 256)
    for function, args in (
        (groups, (unsigned(40, 256), weight, torch.rand(48, 8))),
        (floats, (torch.randn(40, 256), weight, scales, torch.arange(48))),
        (fractions, (unsigned(40, 256), weight, torch.tensor(0.5))),
    ):
        got, exact = compiled(function, driver)(*args).double(), _in_float64(function, args)
        assert (got - exact).abs().max() <= 2.0**-18 * exact.abs().max()
    assert "dot_gemm" not in taken


@pytest.mark.parametrize("driver", two_drivers())
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_clamped_numbers_become_bytes(driver: str, dtype: torch.dtype) -> None:
    """The conversion after a clamp takes no detour; NaN is what eager makes of it."""
    low, high = LIMITS[dtype]

    def convert(x: Tensor) -> tuple[Tensor, ...]:
        return (
            x.clamp(low, high).to(dtype),
            x.clamp_max(high).clamp_min(low).to(dtype),
            quantised.quantize_per_tensor(x.float(), 0.1, 3, low, high, dtype),
        )

    x = torch.cat((torch.randn(2000) * 200, torch.tensor([math.inf, -math.inf, math.nan, 0.5])))
    for numbers in (x, x.half(), x.double()):
        if numbers.dtype is torch.float64 and not select_device(driver).info.fp64:
            continue
        got = agreement.compiled(convert, driver)(numbers)
        for actual, expected in zip(got, convert(numbers), strict=True):
            assert torch.equal(actual, expected)
