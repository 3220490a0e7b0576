"""The weight gradient as a product over windows that are never written, with each kind of tile."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from agreement import agree, random, two_drivers
from lowered import check_on

from ocl_inductor.device.device import Device
from ocl_inductor.device.select import select_device
from ocl_inductor.ir.nodes import Template
from ocl_inductor.lowering.conv import window_product
from ocl_inductor.plan.plan import Plan
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.conv.window_product import WINDOW_PRODUCT, WindowProductParams
from ocl_inductor.templates.simt_tiles import ProductWork, SimtTile, local_bytes
from ocl_inductor.tune.standalone import StandaloneKernel

aten = torch.ops.aten

TILES = [
    SimtTile(16, 16, 8, 8, 16),
    SimtTile(8, 8, 4, 4, 16, 2, 16),
    SimtTile(16, 8, 4, 8, 8, 1),
    SimtTile(4, 4, 1, 1, 4),
]

#: rows, channels, kernel, extents, stride, padding, dilation.
CASES: list[tuple[Any, ...]] = [
    (128, 128, (1, 1), (8, 8), (2, 2), (0, 0), (1, 1)),
    (36, 20, (3, 3), (12, 13), (1, 1), (1, 1), (1, 1)),
    (20, 3, (7, 7), (17, 16), (2, 2), (3, 3), (1, 1)),
    (5, 8, (3, 2), (15, 10), (3, 1), (0, 2), (2, 3)),
    (9, 6, (5,), (40,), (2,), (2,), (1,)),
    (8, 5, (3, 2, 3), (5, 6, 7), (2, 1, 1), (1, 0, 1), (1, 2, 1)),
    (64, 64, (3, 3), (8, 8), (1, 1), (1, 1), (1, 1)),
]


#: Numbers of parts, and where the operands begin.
WAYS = [(1, 0), (3, 4), (2, 3)]


@pytest.fixture
def device(device_name: str) -> Device:
    if device_name == "oclgrind":
        pytest.skip("too slow on the simulator")
    return select_device(device_name)


def parameters(
    tile: SimtTile, case: tuple[Any, ...], n: int, parts: int, offset: int
) -> WindowProductParams:
    rows, channels, kernel, extents, stride, padding, dilation = case
    windows = tuple(
        (e + 2 * p - d * (k - 1) - 1) // s + 1
        for e, k, s, p, d in zip(extents, kernel, stride, padding, dilation, strict=True)
    )
    count = n * int(np.prod(windows))
    per_part = ceil_div(ceil_div(count, parts), tile.slab) * tile.slab
    return WindowProductParams(
        n=n, windows=windows, extents=extents, kernel=kernel, stride=stride,
        padding=padding, dilation=dilation, rows=rows, channels=channels,
        row_offset=offset, fine_offset=offset, parts=ceil_div(count, per_part),
        windows_per_part=per_part, acc="float", tile=tile,
    )  # fmt: skip


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("tile", TILES, ids=lambda t: "-".join(map(str, dataclasses.astuple(t))))
def test_each_tile(device: Device, tile: SimtTile, aligned: bool) -> None:
    """Whole tiles and rests of rows, columns and windows; one part and several; vectors or none."""
    info = device.info
    if tile.items > info.max_work_group_size or local_bytes(tile, "float") > info.local_mem_bytes:
        pytest.skip("the device has no room for such work-groups")
    info = dataclasses.replace(
        info, profile="simt", vector_width=1, zero_copy=not aligned, unified_memory=True
    )
    numbers = np.random.default_rng()
    for number, case in enumerate(CASES):
        for parts, offset in WAYS[number % 2 :: 2]:
            p = parameters(tile, case, 2, parts, offset)
            coarse = numbers.uniform(-1, 1, (2, *p.windows, p.rows)).astype(np.float32)
            fine = numbers.uniform(-1, 1, (2, *p.extents, p.channels)).astype(np.float32)
            kernel = StandaloneKernel(device, "simt", WINDOW_PRODUCT, p, facts=info)
            front = np.full(offset, np.nan, np.float32)
            got = kernel(*(np.concatenate([front, x.reshape(-1)]) for x in (coarse, fine)))
            want = WINDOW_PRODUCT.reference(
                np.moveaxis(coarse, -1, 1), np.moveaxis(fine, -1, 1), p.kernel, p.stride,
                p.padding, p.dilation, 1,
            )  # fmt: skip
            got = got.reshape(p.rows, p.parts, *p.kernel, p.channels).sum(1)
            # Twice the bound of a sum of so many products of numbers up to 1.
            terms = coarse.size // p.rows
            atol = 2 * terms * float(np.finfo(np.float32).eps)
            np.testing.assert_allclose(np.moveaxis(got, -1, 1), want, rtol=0, atol=atol)
            vectors = aligned and not offset % 4
            assert kernel.tile["fill_a"].width == (4 if vectors and case[0] % 4 == 0 else 1)
            assert kernel.tile["fill_b"].width == (4 if vectors and case[1] % 4 == 0 else 1)


def gradient(
    x: torch.Tensor, w: torch.Tensor, *rest: Any, groups: int = 1, transposed: bool = False
) -> tuple[Any, ...]:
    """Arguments of convolution_backward for the weight alone."""
    more = (*rest, transposed, [0] * (x.ndim - 2), groups)
    grad = torch.randn_like(aten.convolution(x, w, None, *more))
    return (grad, x, w, None, *more, [False, True, False])


@pytest.mark.parametrize("units", [1, 64])
def test_lowered(on: tuple[Device, str], units: int) -> None:
    """Where windows overlap or lie apart, and not where a product reads them as they are."""
    if on[1] != "simt":
        pytest.skip("the form of GPUs")
    two, one, none = [2, 2], [1, 1], [0, 0]
    cases = [
        (gradient(torch.randn(3, 8, 12, 13), torch.randn(12, 8, 3, 3), one, one, one), True),
        (gradient(torch.randn(2, 3, 23, 22), torch.randn(9, 3, 7, 7), two, [3, 3], one), True),
        (gradient(torch.randn(2, 8, 12, 13), torch.randn(12, 8, 1, 1), two, none, one), True),
        (gradient(torch.randn(2, 8, 12, 13), torch.randn(12, 8, 1, 1), one, none, one), False),
        (gradient(torch.randn(2, 8, 9, 9), torch.randn(8, 2, 3, 3), one, one, one,
                  groups=4), False),
        (gradient(torch.randn(2, 6, 7, 8), torch.randn(6, 4, 3, 3), two, one, one,
                  transposed=True), True),
    ]  # fmt: skip
    for arguments, expected in cases:
        harness = check_on(
            *on, aten.convolution_backward.default, *arguments, compute_units=units, atol=1e-3
        )
        assert ("window_product" in harness.templates()) is expected


def test_few_results_of_many_windows_are_sums_of_parts(on: tuple[Device, str]) -> None:
    if on[1] != "simt":
        pytest.skip("the form of GPUs")
    arguments = gradient(
        torch.randn(4, 16, 40, 40), torch.randn(16, 16, 3, 3), [1, 1], [1, 1], [1, 1]
    )
    harness = check_on(
        *on, aten.convolution_backward.default, *arguments, compute_units=64, atol=2e-3
    )
    (found,) = (n for n in harness.ctx.nodes if isinstance(n, Template))
    assert isinstance(found.params, WindowProductParams) and found.params.parts > 1


@pytest.mark.parametrize("driver", two_drivers("cpu")[:1])
def test_no_window_is_written(driver: str, plans: list[Plan], monkeypatch: Any) -> None:
    """A training step on a device with memory of its own: nothing as large as all windows."""
    seen: list[ProductWork] = []
    choose = window_product.choose_tile

    def noting(device: Any, work: ProductWork) -> Any:
        seen.append(work)
        return choose(device, work)

    monkeypatch.setattr(window_product, "choose_tile", noting)
    x, w = random(4, 24, 20, 20), random(40, 24, 3, 3)
    arguments = gradient(x, w, [1, 1], [1, 1], [1, 1])
    agree(
        lambda grad, x, w: aten.convolution_backward(grad, x, w, *arguments[3:])[1],
        *arguments[:3], device=driver, target="h200", rtol=1e-4, atol=2e-3,
    )  # fmt: skip
    (work,) = seen
    assert (work.rows, work.columns, work.depth) == (40, 24 * 9, 4 * 20 * 20)
    (plan,) = plans
    assert max(int(b.extent) for b in plan.buffers) < work.columns * work.depth
