"""Matrix products, convolutions and attention: lowered, computed on every driver, against eager."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ocl_inductor.device import Device, list_devices

sys.path.insert(0, str(Path(__file__).parent))

from lowered import DeviceHarness, check_on  # noqa: E402

aten = torch.ops.aten

DRIVERS = [d for d in list_devices() if d.short_name != "oclgrind"]
CASES = [(d, p) for d in DRIVERS for p in ("vector", "simt")]


@pytest.fixture(params=CASES, ids=[f"{d.short_name}-{p}" for d, p in CASES])
def on(request: pytest.FixtureRequest) -> tuple[Device, str]:
    return request.param


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def rand(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*size, dtype=dtype)


@pytest.mark.parametrize(
    "m,k,n",
    [(64, 64, 64), (13, 33, 50), (5, 100, 7), (49, 20, 33), (100, 1000, 10), (3, 700, 96),
     (17, 64, 48), (70, 9, 130)],
)  # fmt: skip
def test_mm(on: tuple[Device, str], m: int, k: int, n: int) -> None:
    harness = check_on(*on, aten.mm.default, rand(m, k), rand(k, n))
    assert harness.templates() == ["gemm"]


@pytest.mark.parametrize("width", [4, 8])
def test_mm_of_narrower_machines(on: tuple[Device, str], width: int) -> None:
    if on[1] == "simt":
        pytest.skip("has no width")
    for m, k, n in ((40, 30, 50), (7, 500, 8), (2, 90, 100)):
        check_on(*on, aten.mm.default, rand(m, k), rand(k, n), vector_width=width)


def test_mm_transposed_and_sliced(on: tuple[Device, str]) -> None:
    check_on(*on, aten.mm.default, rand(40, 30).t(), rand(50, 40).t())
    check_on(*on, aten.mm.default, rand(40, 60)[:, ::2], rand(30, 100)[:, 3:67])
    check_on(*on, aten.mm.default, rand(1, 30).expand(40, 30), rand(30, 64))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32])
def test_mm_dtypes(on: tuple[Device, str], dtype: torch.dtype) -> None:
    a, b = (rand(30, 40) * 4).to(dtype), (rand(40, 50) * 4).to(dtype)
    tolerance = 0.02 if dtype.itemsize == 2 else 1e-4
    check_on(*on, aten.mm.default, a, b, rtol=tolerance, atol=tolerance)


def test_mm_edge_sizes(on: tuple[Device, str]) -> None:
    for m, k, n in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (1, 500, 60), (60, 500, 1)):
        check_on(*on, aten.mm.default, rand(m, k), rand(k, n))


def test_nonfinite_values_reach_the_right_elements(on: tuple[Device, str]) -> None:
    a, b = rand(30, 40), rand(40, 20)
    a[29, 0], b[39, 19], a[3, 3] = float("nan"), float("inf"), float("-inf")
    check_on(*on, aten.mm.default, a, b)


def test_batched(on: tuple[Device, str]) -> None:
    check_on(*on, aten.bmm.default, rand(6, 17, 24), rand(6, 24, 33))
    check_on(*on, aten.bmm.default, rand(6, 17, 24), rand(24, 33).expand(6, 24, 33))
    check_on(*on, aten.bmm.default, rand(24, 6, 17).permute(1, 2, 0), rand(6, 32, 24).mT)


def test_addends(on: tuple[Device, str]) -> None:
    nan = torch.full((20,), float("nan"))
    check_on(*on, aten.addmm.default, rand(20), rand(30, 40), rand(40, 20), beta=0.5, alpha=2)
    check_on(*on, aten.addmm.default, nan, rand(30, 40), rand(40, 20), beta=0)
    check_on(*on, aten.addmm.default, rand(30, 20), rand(30, 0), rand(0, 20))
    check_on(*on, aten.baddbmm.default, rand(3, 1, 20), rand(3, 30, 40), rand(3, 40, 20))
    check_on(*on, aten.addbmm.default, rand(30, 20), rand(3, 30, 40), rand(3, 40, 20), alpha=3)
    check_on(*on, aten.addmv.default, rand(30), rand(30, 40), rand(40), beta=2)
    check_on(*on, aten.mv.default, rand(30, 40), rand(40))
    check_on(*on, aten.dot.default, rand(400), rand(400))
    check_on(*on, aten.linear.default, rand(2, 5, 40), rand(20, 40), rand(20))


def conv(
    on: tuple[Device, str],
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    transposed: bool = False,
    extra: Any = 0,
    groups: int = 1,
) -> DeviceHarness:
    def each(v: Any) -> list[int]:
        return list(v) if isinstance(v, (list, tuple)) else [v] * (x.ndim - 2)

    return check_on(
        *on, aten.convolution.default, x, w, bias, each(stride), each(padding), each(dilation),
        transposed, each(extra), groups,
    )  # fmt: skip


def test_conv_plain(on: tuple[Device, str]) -> None:
    harness = conv(on, rand(2, 20, 9, 11), rand(40, 20, 3, 3), rand(40), padding=1)
    assert harness.templates() == ["conv"]
    conv(on, rand(2, 20, 9, 11), rand(33, 20, 3, 3), stride=2, padding=1)
    conv(on, rand(1, 20, 9, 11), rand(8, 20, 3, 2), stride=(2, 1), padding=(0, 1), dilation=(2, 1))
    conv(on, rand(1, 20, 4, 4), rand(8, 20, 4, 4))
    conv(on, rand(3, 20, 4, 5).to(memory_format=torch.channels_last), rand(8, 20, 3, 3), padding=2)


def test_conv_few_channels(on: tuple[Device, str]) -> None:
    conv(on, rand(2, 3, 15, 14), rand(20, 3, 7, 7), rand(20), stride=2, padding=3)
    conv(on, rand(2, 1, 15, 14), rand(20, 1, 5, 5), rand(20))
    conv(on, rand(2, 3, 16, 16), rand(20, 3, 4, 4), stride=4)
    conv(on, rand(2, 3, 16, 16), rand(20, 3, 3, 3), padding=1, dilation=2)


def test_conv_of_one_pixel_is_a_matrix_product(on: tuple[Device, str]) -> None:
    harness = conv(on, rand(2, 20, 6, 7), rand(40, 20, 1, 1), rand(40))
    assert harness.templates() == ["gemm"]
    conv(on, rand(2, 20, 6, 7), rand(40, 20, 1, 1), stride=2)
    conv(on, rand(2, 20, 6, 7), rand(40, 20, 1, 1), padding=1)
    conv(on, rand(2, 20, 6, 7), rand(20, 40, 1, 1), transposed=True)


def test_conv_groups(on: tuple[Device, str]) -> None:
    conv(on, rand(2, 12, 6, 7), rand(20, 3, 3, 3), rand(20), padding=1, groups=4)
    conv(on, rand(2, 12, 6, 7), rand(12, 1, 3, 3), rand(12), padding=1, groups=12)
    conv(on, rand(2, 12, 6, 7), rand(24, 1, 3, 3), stride=2, padding=1, groups=12)
    conv(on, rand(1, 4, 20, 20), rand(4, 1, 9, 9), padding=4, groups=4)


def test_conv_transposed(on: tuple[Device, str]) -> None:
    harness = conv(on, rand(2, 12, 4, 5), rand(12, 20, 2, 2), rand(20), stride=2, transposed=True)
    assert harness.templates() == ["gemm"]
    conv(on, rand(2, 12, 4, 5), rand(12, 20, 3, 3), stride=2, padding=1, transposed=True, extra=1)
    conv(on, rand(2, 12, 4, 5), rand(12, 20, 3, 4), padding=1, dilation=2, transposed=True)
    conv(on, rand(2, 12, 4, 5), rand(12, 5, 3, 3), stride=3, transposed=True, groups=4)


def test_conv_other_dimensions(on: tuple[Device, str]) -> None:
    conv(on, rand(2, 12, 30), rand(20, 12, 3), rand(20), padding=1)
    conv(on, rand(2, 12, 30), rand(12, 20, 4), stride=2, transposed=True)
    conv(on, rand(2, 12, 5, 6, 7), rand(20, 12, 3, 3, 3), stride=(1, 2, 1), padding=1)
    conv(on, rand(2, 4, 5, 6, 7), rand(4, 1, 3, 3, 3), padding=1, groups=4)


def test_conv_dtypes(on: tuple[Device, str]) -> None:
    conv(on, rand(2, 6, 5, 6).double(), rand(7, 6, 3, 3).double(), padding=1)
    x, w = (rand(2, 6, 5, 6) * 5).int(), (rand(7, 6, 3, 3) * 5).int()
    conv(on, x, w, padding=1)


def test_conv_empty(on: tuple[Device, str]) -> None:
    conv(on, rand(0, 6, 5, 6), rand(7, 6, 3, 3))
