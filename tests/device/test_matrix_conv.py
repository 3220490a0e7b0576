"""Convolutions by a CPU's matrix unit, made to take every geometry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import agree, compiled, random, two_drivers
from evaluate import make_device
from tuned import change_tuned

from ocl_inductor.device.select import select_device
from ocl_inductor.lowering.conv import conv, matrix_conv
from ocl_inductor.lowering.conv.matrix_conv import ConvPartition
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.templates.conv.pixel_planes import planes
from ocl_inductor.templates.gemm.matrix_gemm import BLOCK
from ocl_inductor.templates.matrix_unit_costs import matrix_unit_costs

each_driver = pytest.mark.parametrize("driver", two_drivers())
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@pytest.fixture
def taken(driver: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The convolutions that the unit takes."""
    if not select_device(driver).info.amx:
        pytest.skip("the CPU has no matrix unit (AMX), or the driver does not reach it")
    found: list[Any] = []
    real = conv.conv_by_matrix_unit

    def counting(*args: Any) -> Any:
        found.append(args[1])
        return real(*args)

    monkeypatch.setattr(conv, "conv_by_matrix_unit", counting)
    monkeypatch.setenv("OCL_INDUCTOR_CACHE", "0")  # plans that were made before took other ways
    return found


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch, taken: list[Any]) -> list[Any]:
    """Make the unit take every convolution that it can."""
    change_tuned(monkeypatch, matrix_conv, "matrix_unit_costs", by_vectors=1e9)
    monkeypatch.setattr(conv, "declines", lambda *_: Declined("not Winograd's algorithm"))
    return taken


GEOMETRIES = [
    # n, channels, output channels, pixels, kernel, stride, padding, dilation
    pytest.param(2, 64, 96, (14, 14), 3, 2, 1, 1, id="stride 2"),
    pytest.param(3, 32, 33, (9, 11), 3, 2, 1, 1, id="one channel in the last block"),
    pytest.param(2, 96, 70, (12, 10), 3, 1, 2, 2, id="dilation"),
    pytest.param(1, 64, 40, (8, 9), 5, 1, 2, 1, id="5x5"),
    pytest.param(2, 32, 64, (23, 17), 5, 3, 0, 2, id="stride 3, dilation 2, no padding"),
    pytest.param(2, 32, 64, (40,), 7, 3, 2, 1, id="one dimension"),
    pytest.param(1, 32, 32, (5, 6, 7), 3, 2, 1, 1, id="three dimensions"),
    pytest.param(1, 32, 64, (70, 66), 3, 2, 1, 1, id="large images"),
    pytest.param(2, 256, 64, (7, 7), 3, 1, 1, 1, id="sums in several parts"),
]


@each_driver
@pytest.mark.parametrize(
    ("n", "channels", "oc", "pixels", "k", "stride", "padding", "dilation"), GEOMETRIES
)
def test_geometries(
    driver: str, n: int, channels: int, oc: int, pixels: Sequence[int], k: int, stride: int,
    padding: int, dilation: int, always: list[Any],
) -> None:  # fmt: skip
    nd = len(pixels)
    agree(
        lambda x, w, b: F.gelu(CONV[nd](x, w, b, stride, padding, dilation)),
        random(n, channels, *pixels), random(oc, channels, *[k] * nd), random(oc),
        device=driver, rtol=1e-4, atol=2e-4,
    )  # fmt: skip
    assert always


@each_driver
@pytest.mark.parametrize(
    "part", [ConvPartition(32, 1, 32, 0.0), ConvPartition(64, 3, 64, 0.0)], ids=["small", "larger"]
)
def test_partitions(
    driver: str, part: ConvPartition, always: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix_conv, "_partition", lambda *_: part)
    agree(
        lambda x, w: torch.relu(F.conv2d(x, w, None, 2, 1)),
        random(3, 96, 17, 15), random(100, 96, 3, 3), device=driver, rtol=1e-4, atol=2e-4,
    )  # fmt: skip
    assert always == [part]


@each_driver
def test_images_of_any_number_and_views(driver: str, always: list[Any]) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x[:, :, 1:, 2:], w[3:], None, 2, 1).sin()

    fn = compiled(function, driver, dynamic=None)
    for n in (3, 2, 5):
        x = random(n, 32, 12, 13)
        torch._dynamo.mark_dynamic(x, 0)
        agree(
            function, x, random(67, 32, 3, 3), device=driver, compiled_fn=fn,
            rtol=1e-4, atol=2e-4,
        )  # fmt: skip
    assert 1 <= len(always) < 3, "not compiled for each number"


@each_driver
def test_part_of_an_image_of_any_size(driver: str, always: list[Any]) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x[:, :, :40, :40], w, None, 2, 1)

    fn = compiled(function, driver, dynamic=None)
    for side in (44, 50):
        x = random(2, 32, side, side).contiguous(memory_format=torch.channels_last)
        torch._dynamo.mark_dynamic(x, 2)
        torch._dynamo.mark_dynamic(x, 3)
        agree(
            function, x, random(40, 32, 3, 3), device=driver, compiled_fn=fn,
            rtol=1e-4, atol=2e-4,
        )  # fmt: skip
    assert always


@each_driver
def test_nearer_to_float64_than_eager_twice(driver: str, always: list[Any]) -> None:
    x, w = random(2, 512, 14, 14), random(64, 512, 3, 3)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, w, None, 2, 1)

    exact = function(x.double(), w.double())
    ours, eager = (f(x, w) - exact for f in (compiled(function, driver), function))
    assert ours.square().mean().sqrt() < 2 * eager.square().mean().sqrt()
    assert always


@each_driver
def test_numbers_that_the_unit_refuses(driver: str, always: list[Any]) -> None:
    x, w = random(2, 64, 9, 9), random(40, 64, 3, 3)
    x[0, 5, 3, 3], x[1, 7, 0, 8] = float("inf"), float("nan")
    agree(
        lambda x, w: F.conv2d(x, w, None, 2, 1), x, w, device=driver, reference=False,
        rtol=1e-4, atol=2e-4,
    )  # fmt: skip
    small, tiny = torch.rand(1, 64, 9, 9).clamp(0.01) * 1e-30, torch.rand(40, 64, 3, 3).clamp(0.01)
    got = compiled(lambda x, w: F.conv2d(x, w, None, 2, 1), driver)(small, tiny)
    want = F.conv2d(small.double(), tiny.double(), None, 2, 1)
    assert torch.allclose(got.double(), want, rtol=1e-5, atol=0)


@each_driver
def test_what_takes_it(driver: str, taken: list[Any]) -> None:
    def units(c: int, oc: int, pixels: int, dtype: torch.dtype = torch.float32, **o: Any) -> int:
        taken.clear()
        x, w = random(4, c, pixels, pixels).to(dtype), random(oc, c, 3, 3).to(dtype)
        compiled(lambda x, w: F.conv2d(x, w, None, 2, 1), driver, **o)(x, w)
        return len(taken)

    assert units(128, 128, 56) == 1
    assert units(128, 128, 56, matrix_unit=False) == 0
    assert units(128, 128, 28, torch.float64) == 0
    assert units(33, 128, 56) == 0
    assert units(32, 8, 8) == 0


@pytest.mark.parametrize("kernel", [(1,), (3,), (3, 2), (5, 3)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_planes_hold_what_taps_read(kernel: tuple[int, ...], stride: int, dilation: int) -> None:
    nd = len(kernel)
    outputs = (7, 5)[:nd]
    found = planes(kernel, (stride,) * nd, (dilation,) * nd, outputs)
    for tap, (plane, shift) in zip(
        torch.cartesian_prod(*map(torch.arange, kernel)).reshape(-1, nd).tolist(), found.taps
    ):
        for pixel in torch.cartesian_prod(*map(torch.arange, outputs)).reshape(-1, nd).tolist():
            position = sum(o * p for o, p in zip(pixel, found.pitch)) + shift
            assert position < found.positions
            place, rest = [], position
            for p in found.pitch:
                place.append(rest // p)
                rest %= p
            read = [c * stride + r for c, r in zip(place, found.phases[plane])]
            assert read == [o * stride + t * dilation for o, t in zip(pixel, tap)]
    last = sum((o - 1) * p for o, p in zip(outputs, found.pitch))
    assert (found.blocks - 1) * BLOCK <= last < found.blocks * BLOCK
    assert found.blocks * BLOCK + max(s for _, s in found.taps) <= found.positions
    assert (found.blocks - 1) * BLOCK + 16 * found.tiles_of_block <= found.positions


@pytest.mark.parametrize("units", [2, 64])
@pytest.mark.parametrize(
    ("channels", "oc", "pixels"), [(128, 128, 28), (512, 512, 7), (32, 32, 4), (64, 1000, 56)]
)
def test_partitions_fit(channels: int, oc: int, pixels: int, units: int) -> None:
    found = planes((3, 3), (2, 2), (1, 1), (pixels, pixels))
    costs = matrix_unit_costs(make_device())
    part = matrix_conv._partition(costs, units, 4, channels, oc, found)
    assert part is not None and part.nr % BLOCK == 0 and part.depth % 32 == 0 and part.mb >= 1
    assert part.nr * part.depth * 9 * 6 <= 900 * 1024, "parts of weights fit into a cache"
    assert part.nr * part.mb * BLOCK * 4 <= 256 * 1024 or part.depth >= channels
    items = -(-oc // part.nr) * -(-4 * found.blocks // part.mb)
    assert items >= min(units, -(-oc // BLOCK) * 4 * found.blocks)
