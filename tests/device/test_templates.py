"""Matrix products and convolutions: lowered, computed on every driver, against eager."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from lowered import DeviceHarness, bias_relu, check_on, skip_where_building_takes_minutes

from ocl_inductor.device.device import Device
from ocl_inductor.ir.nodes import Template
from ocl_inductor.templates.blocking import Blocking, choose_blocking
from ocl_inductor.templates.conv.conv import CONV, ConvParams
from ocl_inductor.templates.gemm.gemm import GEMM, GemmParams
from ocl_inductor.templates.simt_tiles import ProductWork, SimtTile, choose_tile
from ocl_inductor.templates.tile_tables import tile_table
from ocl_inductor.templates.trial import packed
from ocl_inductor.tune.standalone import StandaloneKernel

aten = torch.ops.aten


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


@pytest.mark.parametrize(
    ("m", "k", "n", "chunk"),
    [(260, 1100, 50, 0), (513, 1025, 7, 0), (256, 700, 33, 0), (600, 1030, 300, 0),
     (300, 20000, 32, 1)],
)  # fmt: skip
def test_mm_of_columns_in_parts(on: tuple[Device, str], m: int, k: int, n: int, chunk: int) -> None:
    """A^T B with a long sum, as a layer's weight gradient is; ``chunk``: on so many compute units
    that some of them would have no rows, of chunks too."""
    a = (rand(k, m) / k**0.5).t()  # results of about 1
    units = 64 if chunk else None
    harness = check_on(*on, aten.mm.default, a, rand(k, n), amx=False, compute_units=units)
    (found,) = (x for x in harness.ctx.nodes if isinstance(x, Template))
    if on[1] == "vector":
        params = found.params
        assert isinstance(params, GemmParams)
        assert 0 < params.k_part <= 384 and bool(params.k_chunk) is bool(chunk)


def test_more_of_columns_in_parts(on: tuple[Device, str]) -> None:
    check_on(*on, aten.bmm.default, rand(2, 1040, 256).mT, rand(2, 1040, 30), amx=False)
    bias = rand(40)
    check_on(*on, aten.addmm.default, bias, rand(1040, 256).t(), rand(1040, 40), amx=False)
    if on[0].info.fp64:
        a, b = rand(1040, 130, dtype=torch.float64), rand(1040, 9, dtype=torch.float64)
        check_on(*on, aten.mm.default, a.t(), b, rtol=1e-12, atol=1e-12)


def test_one_row_reads_a_large_matrix_row_by_row(on: tuple[Device, str]) -> None:
    # More than a second-level cache holds, of up to 4 MiB.
    harness = check_on(*on, aten.mm.default, rand(1, 1101), rand(1101, 1200))
    if on[1] == "vector":
        assert len(harness.ctx.nodes) == 2  # blocks of rows, and their sum


def test_mm_transposed_and_sliced(on: tuple[Device, str]) -> None:
    check_on(*on, aten.mm.default, rand(40, 30).t(), rand(50, 40).t())
    check_on(*on, aten.mm.default, rand(40, 60)[:, ::2], rand(30, 100)[:, 3:67])
    check_on(*on, aten.mm.default, rand(1, 30).expand(40, 30), rand(30, 64))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32])
def test_mm_dtypes(on: tuple[Device, str], dtype: torch.dtype) -> None:
    a, b = (rand(30, 40) * 4).to(dtype), (rand(40, 50) * 4).to(dtype)
    if dtype is torch.float64 and not on[0].info.fp64:
        pytest.skip("the device has no float64")
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


@pytest.mark.parametrize("m", [1, 3, 4, 5, 31, 127])
def test_few_rows_read_the_weight_in_place(on: tuple[Device, str], m: int) -> None:
    """As a layer has it: (n, k) in memory, transposed; columns and k with a rest."""
    skip_where_building_takes_minutes(on)
    weight, bias = rand(125, 550), rand(125)
    harness = check_on(*on, aten.linear.default, rand(m, 550), weight, bias, amx=False)
    if on[1] == "vector":
        assert harness.templates() == ["skinny_gemm"]
    check_on(*on, aten.mm.default, rand(1100, m).t()[:, :1040], rand(65, 1040).t())


def test_more_rows_than_few_are_packed(on: tuple[Device, str]) -> None:
    harness = check_on(*on, aten.mm.default, rand(128, 300), rand(40, 300).t(), amx=False)
    assert harness.templates() == ["gemm"]


@pytest.mark.parametrize("width", [4, 8])
def test_few_rows_on_narrower_machines(on: tuple[Device, str], width: int) -> None:
    if on[1] == "simt":
        pytest.skip("has no width")
    for m in (2, 4, 11):
        a, w = rand(m, 1530), rand(130, 1530)
        harness = check_on(*on, aten.mm.default, a, w.t(), vector_width=width, amx=False)
        assert harness.templates() == ["skinny_gemm"]
        if on[0].info.fp64:
            a, w = rand(m, 262, dtype=torch.float64), rand(260, 262, dtype=torch.float64)
            check_on(*on, aten.mm.default, a, w.t(), rtol=1e-12, vector_width=width)


def test_few_rows_and_numbers_that_are_none(on: tuple[Device, str]) -> None:
    """The last vector of a row is read again where a rest is left: what was counted counts once."""
    skip_where_building_takes_minutes(on)
    infinity, nan = float("inf"), float("nan")
    for m in (3, 20):
        a, w = rand(m, 521), rand(140, 521)
        w[5, 510], w[7, 520], a[2, 511], a[1, 505] = infinity, -infinity, nan, infinity
        check_on(*on, aten.mm.default, a, w.t(), amx=False)


def test_few_rows_of_half_a_type(on: tuple[Device, str]) -> None:
    skip_where_building_takes_minutes(on)
    for m in (2, 13):
        a, w = rand(m, 600).half(), rand(130, 600).half()
        harness = check_on(*on, aten.mm.default, a, w.t(), rtol=0.02, atol=0.3, amx=False)
        if on[1] == "vector":
            assert harness.templates() == ["skinny_gemm"]


def test_few_rows_of_other_forms(on: tuple[Device, str]) -> None:
    skip_where_building_takes_minutes(on)
    check_on(*on, aten.mv.default, rand(270, 330), rand(330))
    check_on(*on, aten.mm.default, rand(270, 330), rand(330, 3))
    check_on(*on, aten.bmm.default, rand(6, 2, 300), rand(6, 220, 300).mT)
    check_on(*on, aten.bmm.default, rand(6, 1, 300), rand(220, 300).t().expand(6, 300, 220))
    check_on(*on, aten.mm.default, rand(1, 470), rand(190, 470).t()[:, 5:160])
    if on[0].info.fp64:
        w = rand(240, 290, dtype=torch.float64)
        check_on(*on, aten.mm.default, rand(2, 290, dtype=torch.float64), w.t(), rtol=1e-12)


def test_few_rows_of_a_long_weight(on: tuple[Device, str]) -> None:
    """Longer than one chain of additions."""
    skip_where_building_takes_minutes(on)
    check_on(*on, aten.mm.default, rand(2, 7001), rand(17, 7001).t(), rtol=1e-4, atol=1e-3)


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


@pytest.mark.parametrize(
    "channels,size,kernel,options",
    [
        (16, (9, 11), (3, 3), {"padding": 1}),
        (48, (20, 31), (3, 3), {"stride": 2, "padding": 1}),
        (32, (7, 7), (5, 5), {"padding": 2}),
        (32, (6, 3), (5, 5), {"padding": 2}),  # no window is inside
        (8, (17, 16), (3, 2), {"dilation": (2, 3), "padding": (3, 1)}),
        (12, (9, 9), (7, 7), {"padding": 5, "stride": (1, 3)}),  # whole windows outside
        (16, (1, 40), (1, 3), {}),
        (64, (14, 14), (7, 7), {"padding": 3}),
    ],
)
def test_conv_depthwise(
    on: tuple[Device, str],
    channels: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    options: dict[str, Any],
) -> None:
    x, w = rand(2, channels, *size), rand(channels, 1, *kernel)
    harness = conv(on, x, w, rand(channels), groups=channels, **options)
    expected = ["depthwise"] if on[1] == "vector" else []
    assert [t for t in harness.templates() if t == "depthwise"] == expected


def test_conv_depthwise_of_other_layouts(on: tuple[Device, str]) -> None:
    x, w = rand(2, 16, 9, 11), rand(16, 1, 3, 3)
    conv(on, x.to(memory_format=torch.channels_last), w, groups=16)
    conv(on, x[:1, :, :, 1:], w, groups=16)


def test_conv_depthwise_in_one_dimension(on: tuple[Device, str]) -> None:
    conv(on, rand(2, 32, 30), rand(32, 1, 3), rand(32), padding=1, groups=32)
    conv(on, rand(1, 16, 30), rand(16, 1, 5), stride=2, padding=(4,), dilation=2, groups=16)


def test_conv_depthwise_infinities_stay_in_their_windows(on: tuple[Device, str]) -> None:
    x, w = rand(1, 16, 9, 9), rand(16, 1, 3, 3)
    x[0, 3, 4, 4], x[0, 5, 0, 0], x[0, 7, 8, 8] = float("inf"), float("nan"), float("-inf")
    conv(on, x, w, padding=1, groups=16)


def test_winograd_is_left_where_it_does_not_pay_or_must_not_be_used(
    on: tuple[Device, str],
) -> None:
    if on[1] == "simt":
        pytest.skip("direct convolution only")
    w = rand(32, 32, 3, 3)
    for x in (rand(1, 32, 4, 5), rand(1, 32, 5, 40)[:, :, :1]):  # few pixels; tiles mostly empty
        assert conv(on, x, w, padding=1).templates() == ["conv"]
    x = rand(1, 32, 30, 30)
    assert conv(on, x, w, padding=1, stride=2).templates() == ["conv"]
    assert conv(on, x, w, padding=2, dilation=2).templates() == ["conv"]
    if on[0].info.fp64:
        assert conv(on, x.double(), w.double(), padding=1).templates() == ["conv"]


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
    if on[0].info.fp64:
        conv(on, rand(2, 6, 5, 6).double(), rand(7, 6, 3, 3).double(), padding=1)
    x, w = (rand(2, 6, 5, 6) * 5).int(), (rand(7, 6, 3, 3) * 5).int()
    conv(on, x, w, padding=1)


def test_conv_empty(on: tuple[Device, str]) -> None:
    conv(on, rand(0, 6, 5, 6), rand(7, 6, 3, 3))


# -- the holes -----------------------------------------------------------------------------


def tiling(device: Device, profile: str, rows: int, columns: int) -> Blocking | SimtTile:
    if profile == "simt":
        return choose_tile(device.info, ProductWork("float", rows, columns, 1, 45))[0]
    return choose_blocking(device.info, "float", rows, columns, 1, 0)


def gemm_params(m: Any, n: Any, k: Any, profile: str, device: Device) -> GemmParams:
    simt = profile == "simt"
    return GemmParams(
        m=m, n=n, k=k, batch=(), out_batch=(), out_order=(0,), acc="float",
        a_layout="strided", a_offset=0, a_strides=(k, 1),
        b_layout="strided" if simt else "panels", b_offset=0, b_strides=(n, 1) if simt else (),
        tile=tiling(device, profile, 30, 40),
    )  # fmt: skip


def operands(m: int, n: int, k: int, kernel: StandaloneKernel) -> tuple[np.ndarray, ...]:
    a, b = rand(m, k).numpy(), rand(k, n).numpy()
    nr = kernel.tile.get("NR")
    return a, b, packed(b, nr) if nr else b


def test_gemm_with_an_epilogue(on: tuple[Device, str]) -> None:
    device, profile = on
    m, n, k = 29, 43, 37
    bias = rand(n).numpy()
    params = gemm_params(m, n, k, profile, device)
    kernel = StandaloneKernel(device, profile, GEMM, params, epilogue=bias_relu, extras=[bias])
    a, b, lying = operands(m, n, k, kernel)
    want = np.maximum(GEMM.reference(a, b) + bias, 0)
    np.testing.assert_allclose(kernel(a, lying), want, rtol=1e-4, atol=1e-4)


def tiles_for_columns(device: Device, profile: str, columns: int) -> list[Blocking | SimtTile]:
    """One with each number of vectors that such rows may have."""
    first = tiling(device, profile, 30, columns)
    if isinstance(first, SimtTile):
        return [first]
    rows, vectors = tile_table(device.info).rows, -(-columns // first.lanes)
    return [Blocking(mr, nv, first.lanes, 2) for nv, mr in rows.items() if nv <= vectors]


@pytest.mark.parametrize("n", [5, 8, 12, 13, 24, 31, 40, 72, 76, 79, 136])
def test_gemm_with_columns_left_over(n: int, on: tuple[Device, str]) -> None:
    """They are stored as shorter vectors, or one by one."""
    device, profile = on
    m, k = 29, 7
    bias = rand(n).numpy()
    for tile in tiles_for_columns(device, profile, n):
        params = replace(gemm_params(m, n, k, profile, device), tile=tile)
        kernel = StandaloneKernel(device, profile, GEMM, params, epilogue=bias_relu, extras=[bias])
        a, b, lying = operands(m, n, k, kernel)
        want = np.maximum(GEMM.reference(a, b) + bias, 0)
        np.testing.assert_allclose(kernel(a, lying), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("ocg", "groups"), [(12, 2), (24, 1), (24, 3), (31, 2), (72, 1)])
def test_conv_with_channels_left_over(ocg: int, groups: int, on: tuple[Device, str]) -> None:
    device, profile = on
    n, h, w, icg = 2, 5, 6, 3
    channels, bias = groups * icg, rand(groups * ocg).numpy()
    for tile in tiles_for_columns(device, profile, ocg):
        params = ConvParams(
            n=n, in_sizes=(h, w), out_sizes=(h, w), groups=groups, icg=icg, ocg=ocg,
            kernel=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1),
            transposed=False, x_offset=0,
            x_strides=(h * w * channels, w * channels, channels, 1), tile=tile, acc="float",
        )  # fmt: skip
        kernel = StandaloneKernel(device, profile, CONV, params, 3, bias_relu, [bias])
        x, weight = rand(n, channels, h, w).numpy(), rand(groups * ocg, icg, 3, 3).numpy()
        taps = weight.reshape(groups, ocg, icg, 3, 3).transpose(0, 3, 4, 2, 1)
        taps = taps.reshape(groups, 9 * icg, ocg)
        lying = packed(taps, kernel.tile["NR"]) if profile == "vector" else taps
        got = kernel(x.transpose(0, 2, 3, 1), lying, np.zeros(icg))
        want = CONV.reference(x, weight, (1, 1), (1, 1), (1, 1), groups).transpose(0, 2, 3, 1)
        np.testing.assert_allclose(got, np.maximum(want + bias, 0), rtol=1e-4, atol=1e-4)


def test_gemm_of_symbolic_sizes(on: tuple[Device, str]) -> None:
    device, profile = on
    s0, s1, s2 = sympy.symbols("s0 s1 s2", integer=True, positive=True)
    for m, n, k in ((29, 43, 37), (1, 1, 1), (5, 64, 3), (36, 32, 100)):
        params = gemm_params(s0, s1, s2, profile, device)
        kernel = StandaloneKernel(
            device, profile, GEMM, params, symbols={"s0": m, "s1": n, "s2": k}
        )
        a, b, lying = operands(m, n, k, kernel)
        np.testing.assert_allclose(kernel(a, lying), GEMM.reference(a, b), rtol=1e-4, atol=1e-4)


def test_conv_with_an_epilogue_and_symbolic_sizes(on: tuple[Device, str]) -> None:
    device, profile = on
    s0, s1 = sympy.symbols("s0 s1", integer=True, positive=True)
    n, h, w, icg, ocg = 2, 7, 6, 5, 19
    params = ConvParams(
        n=s0, in_sizes=(s1, w), out_sizes=(s1, w), groups=1, icg=icg, ocg=ocg,
        kernel=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1),
        transposed=False, x_offset=0, x_strides=(s1 * w * icg, w * icg, icg, 1),
        tile=tiling(device, profile, 84, ocg), acc="float",
    )  # fmt: skip
    bias = rand(ocg).numpy()
    kernel = StandaloneKernel(
        device, profile, CONV, params, 3, bias_relu, [bias], symbols={"s0": n, "s1": h}
    )
    x, weight = rand(n, icg, h, w).numpy(), rand(ocg, icg, 3, 3).numpy()
    taps = weight.transpose(2, 3, 1, 0).reshape(9 * icg, ocg)
    lying = packed(taps, kernel.tile["NR"]) if profile == "vector" else taps
    got = kernel(x.transpose(0, 2, 3, 1), lying, np.zeros(icg))
    want = CONV.reference(x, weight, (1, 1), (1, 1), (1, 1), 1).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(got, np.maximum(want + bias, 0), rtol=1e-4, atol=1e-4)
