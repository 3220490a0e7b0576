"""Products and convolutions of bfloat16 by vdpbf16ps: every layout, edge and size it may take."""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any

import agreement
import bf16_checks
import pytest
import torch
from agreement import two_drivers
from bf16_checks import CONVOLUTIONS, name_of, narrow
from torch import nn
from torch.nn import functional as F

from ocl_inductor.device.select import select_device
from ocl_inductor.settings import Settings

each_driver = pytest.mark.parametrize("driver", two_drivers("cpu"))
INFINITY, NAN = float("inf"), float("nan")

# A matrix unit would take them all.
compiled = functools.partial(agreement.compiled, matrix_unit=False)
check = functools.partial(bf16_checks.check, matrix_unit=False)


@pytest.fixture
def taken(driver: str, taken: list[str]) -> list[str]:
    """The templates that are lowered to, where the processor has the instruction."""
    if not select_device(driver).info.bf16_dot:
        pytest.skip("the CPU has no AVX512-BF16, or the driver does not reach it")
    return taken


@each_driver
@pytest.mark.parametrize("m, k, n", [(64, 64, 64), (7, 34, 9), (37, 70, 45), (131, 770, 50)])
def test_layouts_of_matrices(driver: str, taken: list[str], m: int, k: int, n: int) -> None:
    a, b = narrow(m, k), narrow(k, n)
    check(torch.matmul, a, b, driver=driver)
    check(torch.matmul, a, narrow(n, k).t(), driver=driver)
    check(torch.matmul, narrow(k, m).t(), b, driver=driver)
    # At odd elements, and with rows that begin at odd ones.
    check(torch.matmul, narrow(m, k + 1)[:, 1:], narrow(k, n + 1)[:, 1:], driver=driver)
    check(torch.matmul, narrow(m, k + 3)[:, 1:-2], narrow(n, k + 3)[:, 1:-2].t(), driver=driver)
    check(torch.matmul, narrow(m, 2 * k)[:, ::2], narrow(k, 2 * n)[:, ::2], driver=driver)
    assert taken.count("dot_gemm") == 6


@each_driver
def test_batches(driver: str, taken: list[str]) -> None:
    check(torch.matmul, narrow(3, 5, 33, 64), narrow(3, 5, 64, 40), driver=driver)
    check(torch.matmul, narrow(3, 5, 33, 64), narrow(3, 5, 17, 64).mT, driver=driver)
    check(torch.matmul, narrow(3, 1, 33, 64), narrow(5, 64, 40), driver=driver)
    check(torch.matmul, narrow(4, 33, 64), narrow(64, 40), driver=driver)
    heads = narrow(2, 20, 3, 32).transpose(1, 2)
    check(torch.matmul, heads, heads.mT, driver=driver)
    assert taken.count("dot_gemm") == 5


@each_driver
def test_rows_of_any_number(driver: str, taken: list[str]) -> None:
    function = compiled(torch.matmul, driver, dynamic=None)
    b = narrow(64, 50)
    for rows in (70, 33, 6, 5, 200):
        a = narrow(rows, 64)
        torch._dynamo.mark_dynamic(a, 0)
        check(torch.matmul, a, b, driver=driver, run=function)
    assert taken.count("dot_gemm") == 1, "not once for all numbers of rows"


@each_driver
def test_bias_and_activation_are_fused(driver: str, taken: list[str]) -> None:
    bf16_checks.check_bias_and_activation(driver=driver, matrix_unit=False)
    assert taken == ["dot_gemm"]


@each_driver
def test_infinities_and_nan(driver: str, taken: list[str]) -> None:
    a, b = narrow(40, 64), narrow(64, 40)
    a[3, 5], a[7, 0], b[9, 2], b[63, 39] = INFINITY, NAN, -INFINITY, NAN
    got, want = compiled(torch.matmul, driver)(a, b), a.float() @ b.float()
    torch.testing.assert_close(got, want.bfloat16(), rtol=1e-2, atol=1e-2, equal_nan=True)
    assert taken == ["dot_gemm"]


@each_driver
def test_what_does_not_come_in_pairs_goes_another_way(driver: str, taken: list[str]) -> None:
    check(torch.matmul, narrow(40, 65), narrow(65, 40), driver=driver)  # an odd number of terms
    check(torch.matmul, narrow(3, 128), narrow(128, 40), driver=driver)  # memory limits it
    assert "dot_gemm" not in taken


@each_driver
@pytest.mark.parametrize("layer, size", CONVOLUTIONS, ids=name_of)
@pytest.mark.parametrize("kept", [True, False])
def test_convolutions(driver: str, taken: list[str], layer: Any, size: Any, kept: bool) -> None:
    x = narrow(*size)
    bf16_checks.check_convolution(layer, x, kept=kept, driver=driver, matrix_unit=False)
    assert "dot_conv" in taken


@each_driver
@pytest.mark.parametrize(
    "layer, size",
    [
        (nn.Conv2d(32, 32, 3, padding=1, groups=32), (2, 32, 15, 13)),
        (nn.Conv2d(48, 48, 5, stride=2, padding=2, groups=48), (2, 48, 15, 13)),
        (nn.Conv2d(24, 24, 3, padding=2, dilation=2, groups=24), (1, 24, 7, 9)),
        (nn.Conv1d(16, 16, 3, groups=16), (2, 16, 30)),
    ],
)
def test_depthwise_convolutions_read_the_narrow_type(
    driver: str, taken: list[str], layer: Any, size: Any
) -> None:
    run = compiled(copy.deepcopy(layer).bfloat16(), driver)
    exact = copy.deepcopy(layer).bfloat16().double()
    with torch.no_grad():
        x = narrow(*size)
        got, want = run(x).double(), exact(x.double())
    assert ((got - want).abs() <= want.abs() * 2.0**-8 + 1e-5).all()
    assert set(taken) == {"depthwise"}


@each_driver
def test_a_convolution_of_one_pixel_is_a_product(driver: str, taken: list[str]) -> None:
    check(F.conv2d, narrow(2, 32, 9, 11), narrow(40, 32, 1, 1), driver=driver)
    assert taken == ["dot_gemm"]


@each_driver
def test_images_of_any_number(driver: str, taken: list[str]) -> None:
    bf16_checks.check_images_of_any_number(driver=driver, matrix_unit=False)
    assert "dot_conv" in taken


@each_driver
def test_gradients(driver: str, taken: list[str]) -> None:
    bf16_checks.check_gradients(driver=driver, matrix_unit=False)
    assert "dot_gemm" in taken and "dot_conv" in taken


@each_driver
def test_only_where_vectors_are_whole(driver: str) -> None:
    info = dataclasses.replace(
        select_device(driver).info, profile="vector", vector_width=16, bf16_dot=True
    )
    assert info.for_settings(Settings()).bf16_dot
    assert not info.for_settings(Settings(profile="simt")).bf16_dot


@each_driver
@pytest.mark.parametrize(
    "m, k, n", [(1, 768, 256), (2, 770, 300), (3, 96, 1001), (4, 2048, 70), (1, 4127, 33)]
)
def test_very_few_rows(driver: str, taken: list[str], m: int, k: int, n: int) -> None:
    weight = narrow(n, k)
    check(F.linear, narrow(m, k), weight, driver=driver)
    check(F.linear, narrow(m, k + 1)[:, 1:], narrow(n, k + 3)[:, 2:-1], driver=driver)
    check(F.linear, narrow(k, m).t(), weight, driver=driver)
    assert taken.count("bf16_skinny_gemm") == 3


@each_driver
def test_very_few_rows_of_each_batch(driver: str, taken: list[str]) -> None:
    check(torch.matmul, narrow(3, 2, 640), narrow(3, 128, 640).mT, driver=driver)
    check(torch.matmul, narrow(3, 1, 640), narrow(1, 128, 640).mT, driver=driver)
    assert "bf16_skinny_gemm" in taken
