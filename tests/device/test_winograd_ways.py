"""The ways through Winograd's algorithm, lowered and computed on every driver, against eager."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lowered import DeviceHarness, bias_relu, check_on, skip_where_building_takes_minutes
from tuned import change_tuned

from ocl_inductor.device.device import Device
from ocl_inductor.lowering.conv import winograd
from ocl_inductor.templates.blocking import Blocking
from ocl_inductor.templates.winograd.winograd_points import (
    WINOGRAD_INPUTS,
    WINOGRAD_OUTPUTS,
    ImageParams,
    InputsParams,
    TransformParams,
)
from ocl_inductor.templates.winograd.winograd_products import (
    WINOGRAD_PRODUCTS,
    PointsProductsParams,
    choose_tile,
    weight_order,
)
from ocl_inductor.templates.winograd.winograd_weight_gradient import (
    WINOGRAD_GRADIENTS,
    WINOGRAD_WEIGHT_GRADIENT,
    PointsGradientParams,
)
from ocl_inductor.tune.standalone import StandaloneKernel

aten = torch.ops.aten
TEMPLATES = {
    1: ["winograd"],
    2: ["winograd_inputs", "winograd_products"],
    3: ["winograd_inputs", "gemm", "winograd_outputs"],
}


@pytest.fixture(autouse=True)
def vector_only(on: tuple[Device, str]) -> None:
    if on[1] == "simt":
        pytest.skip("direct convolution only")
    skip_where_building_takes_minutes(on)


def rand(*size: int) -> torch.Tensor:
    return torch.randn(*size)


def convolve(
    on: tuple[Device, str],
    x: torch.Tensor,
    w: torch.Tensor,
    padding: tuple[int, int] = (1, 1),
    transposed: bool = False,
    vector_width: int | None = None,
) -> DeviceHarness:
    bias = rand(w.shape[1 if transposed else 0])
    return check_on(
        *on, aten.convolution.default, x, w, bias, [1, 1], list(padding), [1, 1], transposed,
        [0, 0], 1, vector_width=vector_width,
    )  # fmt: skip


def force(monkeypatch: pytest.MonkeyPatch, kernels: int) -> None:
    monkeypatch.setattr(winograd, "_kernels", lambda *facts: kernels)
    change_tuned(monkeypatch, winograd, "winograd_costs", transform=0)


@pytest.mark.parametrize(
    "kernels,n,channels,oc,size,padding",
    [
        (1, 2, 32, 48, (13, 18), (1, 1)),
        (1, 3, 32, 32, (18, 14), (0, 2)),
        (2, 2, 32, 48, (13, 18), (1, 1)),
        (2, 1, 48, 80, (28, 27), (0, 0)),
        (2, 3, 64, 32, (18, 14), (0, 2)),
        (3, 1, 64, 32, (24, 25), (0, 0)),
        (3, 1, 48, 80, (13, 18), (1, 0)),
    ],
)
def test_ways(
    on: tuple[Device, str],
    monkeypatch: pytest.MonkeyPatch,
    kernels: int,
    n: int,
    channels: int,
    oc: int,
    size: tuple[int, int],
    padding: tuple[int, int],
) -> None:
    force(monkeypatch, kernels)
    harness = convolve(on, rand(n, channels, *size), rand(oc, channels, 3, 3), padding)
    assert harness.templates() == TEMPLATES[kernels]


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize(
    "order,transposed,layout",
    [
        ("taps", False, torch.contiguous_format),
        ("channels", False, torch.channels_last),
        ("window", True, torch.contiguous_format),
        ("lanes", True, torch.channels_last),
    ],
)
def test_weights_are_read_where_they_lie(
    on: tuple[Device, str],
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    transposed: bool,
    layout: torch.memory_format,
    width: int,
) -> None:
    force(monkeypatch, 2)
    seen = []
    monkeypatch.setattr(winograd, "weight_order", lambda s: seen.append(s) or weight_order(s))
    w = rand(*((64, 48) if transposed else (48, 64)), 3, 3)
    # A part of a larger tensor, and all of it: its memory ends with the last weight.
    larger = torch.cat((w, w)).to(memory_format=layout)
    for weight in (w.to(memory_format=layout), larger[w.shape[0] :]):
        harness = convolve(on, rand(1, 64, 9, 14), weight, (1, 1), transposed, width)
        assert harness.templates() == TEMPLATES[2]
    assert [weight_order(s) for s in seen] == [order, order]


def test_weights_in_another_order_are_copied(
    on: tuple[Device, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, 2)
    w = rand(3, 48, 64, 3).permute(1, 2, 3, 0)
    assert weight_order(w.stride()) is None
    assert convolve(on, rand(1, 64, 9, 14), w).templates() == TEMPLATES[2]


def test_both_ends(on: tuple[Device, str]) -> None:
    device, profile = on
    sizes, padding, channels = (9, 14), (1, 0), 48
    x, products = rand(3, channels, 9, 16).numpy(), rand(36, 3 * 3 * 4, channels).numpy()
    ends = TransformParams(
        n=3, out_sizes=sizes, channels=channels, lanes=16, tiles_hint=36, acc="float"
    )
    strides = (9 * 16 * channels, 16 * channels, channels)
    want = WINOGRAD_INPUTS.reference(x, padding, sizes)
    for block in (16, channels):
        start = InputsParams(
            n=3, out_sizes=sizes, channels=channels, lanes=16, tiles_hint=36, acc="float",
            in_sizes=(9, 16), padding=padding, x_offset=0, x_strides=strides, block=block,
        )  # fmt: skip
        inputs = StandaloneKernel(device, profile, WINOGRAD_INPUTS, start, 1)
        got = inputs(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
        blocks = got.reshape(channels // block, 36, 36, block).transpose(1, 2, 0, 3)
        np.testing.assert_allclose(blocks.reshape(want.shape), want, rtol=1e-4, atol=1e-5)
    bias = rand(channels).numpy()
    outputs = StandaloneKernel(device, profile, WINOGRAD_OUTPUTS, ends, 1, bias_relu, [bias])
    want = WINOGRAD_OUTPUTS.reference(products, 3, sizes).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(outputs(products), np.maximum(want + bias, 0), rtol=1e-4, atol=1e-4)


def test_products(on: tuple[Device, str]) -> None:
    device, profile = on
    n, sizes, channels, oc = 3, (9, 14), 96, 80
    tile = choose_tile(device.info, 36, channels, oc)
    inputs = rand(channels // tile.block, 36, 36, tile.block).numpy()
    weight, bias = rand(oc, channels, 3, 3).numpy() / 30, rand(oc).numpy()
    params = PointsProductsParams(
        n=n, out_sizes=sizes, channels=channels, out_channels=oc, acc="float",
        w_offset=0, w_strides=(9 * channels, 9, 3, 1), tile=tile,
    )  # fmt: skip
    kernel = StandaloneKernel(device, profile, WINOGRAD_PRODUCTS, params, 2, bias_relu, [bias])
    want = WINOGRAD_PRODUCTS.reference(inputs, weight, n, sizes).transpose(0, 2, 3, 1)
    found = kernel(inputs, weight)
    np.testing.assert_allclose(found, np.maximum(want + bias, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "n,channels,oc,size,padding,transposed",
    [
        (2, 48, 32, (13, 18), (1, 1), False),
        (1, 32, 80, (28, 27), (0, 2), False),
        (6, 64, 48, (40, 37), (1, 0), False),  # in parts
        (2, 48, 64, (9, 10), (1, 1), True),
    ],
)
def test_weight_gradient(
    on: tuple[Device, str],
    n: int,
    channels: int,
    oc: int,
    size: tuple[int, int],
    padding: tuple[int, int],
    transposed: bool,
) -> None:
    x = rand(n, channels, *size)
    w = rand(*((channels, oc) if transposed else (oc, channels)), 3, 3)
    rest = ([1, 1], list(padding), [1, 1], transposed, [0, 0], 1)
    grad = rand(*aten.convolution.default(x, w, None, *rest).shape)
    grad /= grad[:, :1].numel() ** 0.5  # results of about 1
    harness = check_on(
        *on, aten.convolution_backward.default, grad, x, w, None, *rest, [False, True, False]
    )
    expected = ["winograd_gradients", "winograd_inputs", "winograd_weight_gradient"]
    assert harness.templates() == expected


def test_gradients_at_points_and_their_sums(on: tuple[Device, str]) -> None:
    device, profile = on
    sizes, rows, columns, tiles = (9, 14), 48, 80, 3 * 3 * 4
    grad, inputs = rand(3, rows, *sizes).numpy(), rand(36, tiles, columns).numpy()
    image = ImageParams(
        n=3, out_sizes=sizes, channels=rows, lanes=16, tiles_hint=tiles, acc="float",
        x_offset=0, x_strides=(9 * 14 * rows, 14 * rows, rows),
    )  # fmt: skip
    kernel = StandaloneKernel(device, profile, WINOGRAD_GRADIENTS, image, 1)
    points = WINOGRAD_GRADIENTS.reference(grad)
    found = kernel(np.ascontiguousarray(grad.transpose(0, 2, 3, 1)))
    np.testing.assert_allclose(found.reshape(points.shape), points, rtol=1e-4, atol=1e-4)
    want = WINOGRAD_WEIGHT_GRADIENT.reference(points, inputs)
    for mb, parts in ((1, 1), (9, 3)):
        params = PointsGradientParams(
            tiles=tiles, rows=rows, columns=columns, acc="float", tile=Blocking(5, 2, 16, mb),
            parts=parts, tiles_per_part=tiles // parts,
        )  # fmt: skip
        kernel = StandaloneKernel(device, profile, WINOGRAD_WEIGHT_GRADIENT, params, 2)
        sums = kernel(points.astype(np.float32), inputs).reshape(parts, *want.shape).sum(0)
        np.testing.assert_allclose(sums, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
