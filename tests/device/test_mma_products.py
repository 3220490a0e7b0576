"""Products and convolutions of half types by a GPU's matrix instructions, in plain OpenCL C.

A described device that has the instructions gets the same kernels, in which a work-item holds and
exchanges what PTX says (templates/parts/mma.cl.jinja).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from torch import nn
from torch.nn import functional as F

from ocl_inductor.device.select import select_device
from ocl_inductor.settings import Settings

each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))
one_driver = pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
each_type = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
TARGET = {"target": "h200"}
#: Bits of a type's mantissa, with the one that is not stored.
BITS = {torch.bfloat16: 8, torch.float16: 11}


def check(function: Callable[..., Any], *args: torch.Tensor, driver: str, **options: Any) -> None:
    """The result is the exact one, rounded once, but for the sums' own rounding.

    Sums in float32 are off by up to 2^-24 of their terms' magnitudes each; 2^-16 of these in all is
    far more than there is, and far less than a term that is missing.
    """
    got = compiled(function, driver, **TARGET, **options)(*args)
    exact = function(*(a.double() for a in args))
    magnitudes = function(*(a.double().abs() for a in args))
    dtype = args[0].dtype
    assert got.dtype is dtype
    off = (got.double() - exact).abs()
    most = exact.abs() * 2.0 ** -BITS[dtype] + magnitudes.abs() * 2.0**-16
    assert (off <= most).all(), f"off by up to {(off / most).max():.2f} times the rounding"


@each_driver
@each_type
def test_layouts_of_matrices(driver: str, dtype: torch.dtype, taken: list[str]) -> None:
    a, b = random(72, 104).to(dtype), random(104, 40).to(dtype)
    check(torch.matmul, a, b, driver=driver)
    check(torch.matmul, a, b.t().contiguous().t(), driver=driver)
    check(torch.matmul, a.t().contiguous().t(), b, driver=driver)
    check(torch.matmul, a.t().contiguous().t(), b.t().contiguous().t(), driver=driver)
    assert taken == ["mma_gemm"] * 4


@each_driver
@pytest.mark.parametrize("m, k, n", [(7, 40, 9), (33, 16, 130), (129, 72, 65), (200, 264, 12)])
def test_edges(driver: str, taken: list[str], m: int, k: int, n: int) -> None:
    """Tiles, slabs and vectors of results with something left over; operands that are copied."""
    a, b = random(m, k).bfloat16(), random(k, n).bfloat16()
    check(torch.matmul, a, b, driver=driver)
    check(torch.matmul, a, random(n, k).bfloat16().t(), driver=driver)
    # At odd elements, rows at odd ones, and not side by side at all.
    check(torch.matmul, random(m, k + 1).bfloat16()[:, 1:], b, driver=driver)
    check(torch.matmul, random(m, 2 * k).bfloat16()[:, ::2], b, driver=driver)
    assert taken == ["mma_gemm"] * 4


@one_driver
def test_what_is_not_divisible_goes_another_way(driver: str, taken: list[str]) -> None:
    check(torch.matmul, random(40, 36).bfloat16(), random(36, 40).bfloat16(), driver=driver)
    assert taken == ["gemm"]


@each_driver
def test_batches_and_parts_of_sums(driver: str, taken: list[str]) -> None:
    check(
        torch.matmul,
        random(3, 2, 33, 64).bfloat16(),
        random(3, 2, 64, 40).bfloat16(),
        driver=driver,
    )
    check(
        torch.matmul, random(3, 1, 33, 64).bfloat16(), random(2, 64, 40).bfloat16(), driver=driver
    )
    heads = random(2, 20, 3, 32).bfloat16().transpose(1, 2)
    check(torch.matmul, heads, heads.mT, driver=driver)
    assert taken == ["mma_gemm"] * 3
    # Few results of long sums: these are computed in parts, the last of which is shorter.
    check(torch.matmul, random(40, 5000).bfloat16(), random(5000, 24).bfloat16(), driver=driver)
    assert taken == ["mma_gemm"] * 4


@each_driver
def test_rows_of_any_number(driver: str, taken: list[str]) -> None:
    function = compiled(torch.matmul, driver, dynamic=None, **TARGET)
    b = random(64, 48).bfloat16()
    for rows in (70, 33, 6, 200):
        a = random(rows, 64).bfloat16()
        torch._dynamo.mark_dynamic(a, 0)
        exact = a.double() @ b.double()
        assert (function(a, b).double() - exact).abs().max() <= exact.abs().max() * 2.0**-8
    assert taken == ["mma_gemm"], "not once for all numbers of rows"


@each_driver
def test_what_follows_is_fused(driver: str, taken: list[str]) -> None:
    x, weight = random(48, 96).bfloat16(), random(80, 96).bfloat16()
    bias, other = random(80).bfloat16(), random(48, 80).bfloat16()

    def layer(x: Any, w: Any, b: Any, other: Any) -> Any:
        return F.gelu(F.linear(x, w, b)) + other

    got = compiled(layer, driver, **TARGET)(x, weight, bias, other)
    exact = layer(*(t.double() for t in (x, weight, bias, other)))
    # What eager rounds three times.
    assert (got.double() - exact).abs().max() <= 3 * 2.0**-8 * exact.abs().max()
    assert taken == ["mma_gemm"]


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ((2, 32, 9, 9), (24, 32, 3, 3), {"padding": 1}),
    "channels of several taps in a slab": (
        (2, 8, 9, 11),
        (24, 8, 3, 3),
        {"padding": 1, "stride": 2},
    ),
    "dilated, odd channels out": ((2, 40, 9, 9), (25, 40, 3, 3), {"padding": 2, "dilation": 2}),
    "1x1": ((2, 64, 9, 9), (24, 64, 1, 1), {}),
    "1x1, every other pixel": ((2, 64, 9, 9), (24, 64, 1, 1), {"stride": 2}),
    "images": ((2, 3, 30, 30), (24, 3, 7, 7), {"padding": 3, "stride": 2}),
    "1d": ((2, 24, 50), (24, 24, 7), {"padding": 3}),
    "3d": ((2, 16, 4, 5, 6), (24, 16, 3, 3, 2), {"padding": 1}),
}


@each_driver
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, driver: str, taken: list[str]) -> None:
    size, weight, geometry = CONVOLUTIONS[name]
    convolve = getattr(F, f"conv{len(size) - 2}d")

    def function(x: Any, w: Any) -> Any:
        return convolve(x, w, **geometry)

    x, w = random(*size).bfloat16(), random(*weight).bfloat16()
    check(function, x, w, driver=driver)
    if name == "3x3":
        check(function, x.contiguous(memory_format=torch.channels_last), w, driver=driver)
    assert set(taken) == {"mma_gemm" if name == "1x1" else "mma_conv"}


WEIGHT_GRADIENTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ((2, 16, 9, 9), (24, 16, 3, 3), {"padding": 1}),
    "strided": ((3, 8, 9, 11), (40, 8, 3, 3), {"padding": 1, "stride": 2}),
    "dilated": ((2, 32, 7, 7), (16, 32, 3, 3), {"padding": 2, "dilation": 2}),
    "1d": ((2, 24, 50), (16, 24, 5), {"padding": 2}),
    "3d": ((2, 16, 4, 5, 6), (24, 16, 3, 3, 2), {"padding": 1}),
    "in parts": ((8, 16, 20, 20), (24, 16, 3, 3), {"padding": 1}),
}


@each_driver
@pytest.mark.parametrize("name", WEIGHT_GRADIENTS)
def test_weight_gradients(name: str, driver: str, taken: list[str]) -> None:
    size, shape, geometry = WEIGHT_GRADIENTS[name]
    convolve = getattr(F, f"conv{len(size) - 2}d")

    def function(x: Any, w: Any) -> Any:
        return convolve(x, w, **geometry)

    x, w = random(*size).bfloat16(), random(*shape).bfloat16().requires_grad_()
    result = compiled(function, driver, **TARGET)(x, w)
    seed = random(*result.shape).bfloat16()
    (got,) = torch.autograd.grad(result, w, seed)

    def exactly(x: Any, w: Any, seed: Any) -> Any:
        wide = w.detach().requires_grad_()
        return torch.autograd.grad(function(x, wide), wide, seed)[0]

    exact = exactly(x.double(), w.double(), seed.double())
    magnitudes = exactly(x.double().abs(), w.double().abs(), seed.double().abs())
    off = (got.double() - exact).abs()
    assert (off <= exact.abs() * 2.0**-8 + magnitudes * 2.0**-16).all()
    assert taken[-1] == "mma_weight_gradient"


@each_driver
@each_type
def test_gradients_of_a_network(driver: str, dtype: torch.dtype, taken: list[str]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 24, 3, stride=2), nn.ReLU(),
        nn.Conv2d(24, 16, 1), nn.Flatten(), nn.Linear(16 * 16, 24),
    ).to(dtype)  # fmt: skip
    x = random(16, 8, 9, 9).to(dtype).requires_grad_()
    run = compiled(model, driver, **TARGET)
    parameters = dict(model.named_parameters())
    results = torch.autograd.grad(run(x).square().mean(), [x, *parameters.values()])
    assert {"mma_gemm", "mma_conv", "mma_weight_gradient"} <= set(taken)
    double = {n: p.detach().double().requires_grad_() for n, p in parameters.items()}
    x64 = x.detach().double().requires_grad_()
    wide = torch.func.functional_call(model, double, (x64,))
    exact = torch.autograd.grad(wide.square().mean(), [x64, *double.values()])
    eager = torch.autograd.grad(model(x).square().mean(), [x, *parameters.values()])
    for ours, theirs, true in zip(results, eager, exact, strict=True):
        own = (ours.double() - true).norm() / true.norm()
        known = (theirs.double() - true).norm() / true.norm()
        assert own <= 1.5 * known + 2.0 ** -BITS[dtype], (own, known)


def test_who_has_the_instructions() -> None:
    drivers = two_drivers("cpu")
    if not drivers:
        pytest.skip("no driver of a CPU, on which kernels for described targets run")
    info = select_device(drivers[0]).info

    def found(**settings: Any) -> str:
        return info.for_settings(Settings.resolve(options=settings)).mma

    assert found() == found(profile="simt") == ""
    assert found(target="h200") == found(target="rtx-3060") == "emulated"
    assert found(target="rx-6800") == found(target="h200", matrix_unit=False) == ""
