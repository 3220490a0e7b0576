"""The tiles of the simt profile: every way in which slabs are read, and what is left over."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from lowered import check_on

from ocl_inductor.device.device import Device
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.device.select import select_device
from ocl_inductor.ir.index import contiguous_strides
from ocl_inductor.ir.nodes import Template
from ocl_inductor.templates.conv.conv import (
    CONV,
    ConvParams,
    conv_trial,
    parts_of_sum,
    table_entries,
)
from ocl_inductor.templates.gemm.gemm import GEMM, GemmParams, gemm_trial
from ocl_inductor.templates.simt_tiles import (
    Fill,
    ProductWork,
    SimtTile,
    candidate_tiles,
    choose_tile,
    local_bytes,
)
from ocl_inductor.tune.standalone import StandaloneKernel

aten = torch.ops.aten

TILES = [
    SimtTile(16, 16, 8, 8, 16),
    SimtTile(8, 16, 8, 8, 16, 1),
    SimtTile(16, 8, 4, 8, 8),
    SimtTile(8, 8, 4, 4, 16, 2, 16),
    SimtTile(8, 8, 2, 1, 16, 1),
    SimtTile(8, 8, 1, 2, 4),
    SimtTile(4, 4, 1, 1, 16),
    SimtTile(1, 1, 4, 4, 2, 1, 1),
]


@pytest.fixture
def device(device_name: str) -> Device:
    if device_name == "oclgrind":
        pytest.skip("too slow on the simulator")
    return select_device(device_name)


def facts(device: Device, aligned: bool) -> DeviceInfo:
    """``aligned``: buffers of the device's own, in which vectors are aligned."""
    return dataclasses.replace(
        device.info, profile="simt", vector_width=1, zero_copy=not aligned, unified_memory=True
    )


def skip_without(device: Device, tile: SimtTile, acc: str) -> None:
    info = device.info
    if tile.items > info.max_work_group_size or local_bytes(tile, acc) > info.local_mem_bytes:
        pytest.skip("the device has no room for such work-groups")


def check(device: Device, spec: Any, trial: Any, info: DeviceInfo) -> StandaloneKernel:
    assert trial is not None
    kernel = StandaloneKernel(device, "simt", spec, trial.params, facts=info)
    got = kernel(*trial.operands)
    # A chain of additions of random signs: far below the bound of any signs.
    np.testing.assert_allclose(got, trial.expected, rtol=0, atol=trial.tolerance)
    return kernel


# -- products ------------------------------------------------------------------------------


def product(
    tile: SimtTile, m: int, k: int, n: int, layout: str = "nn", acc: str = "float", **more: Any
) -> GemmParams:
    """``layout``: of A and of B, "n" as row-major matrices lie, "t" transposed."""
    params = GemmParams(
        m=m, n=n, k=k, batch=(), out_batch=(), out_order=(0,), acc=acc,
        a_layout="strided", a_offset=0, a_strides=(k, 1) if layout[0] == "n" else (1, m),
        b_layout="strided", b_offset=0, b_strides=(n, 1) if layout[1] == "n" else (1, k),
        tile=tile,
    )  # fmt: skip
    return dataclasses.replace(params, **more)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("tile", TILES, ids=lambda t: "-".join(map(str, dataclasses.astuple(t))))
def test_products_with_each_tile(device: Device, tile: SimtTile, aligned: bool) -> None:
    """Whole tiles and rests of rows, columns and terms, and vectors of each operand or none."""
    skip_without(device, tile, "float")
    random = np.random.default_rng()
    rows, columns = tile.rows, tile.columns
    cases = [
        (rows, 2 * tile.slab, columns, "nn"),
        (rows + 4, 3 * tile.slab + 4, columns + 4, "tt"),
        (rows + 1, 2 * tile.slab + 3, columns + 3, "nt"),
        (2, 1, 3, "tn"),
    ]
    for m, k, n, layout in cases:
        params = product(tile, m, k, n, layout)
        check(device, GEMM, gemm_trial(params, random), facts(device, aligned))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_each_layout_is_read_by_vectors(device: Device, layout: str) -> None:
    tile = SimtTile(8, 8, 8, 8, 16)
    skip_without(device, tile, "float")
    random = np.random.default_rng()
    for m, k, n in ((64, 32, 64), (68, 36, 76), (65, 35, 67)):
        params = product(tile, m, k, n, layout)
        kernel = check(device, GEMM, gemm_trial(params, random), facts(device, aligned=True))
        width = 1 if m % 2 else 4
        assert kernel.tile["fill_a"].width == kernel.tile["fill_b"].width == width
        kernel = check(device, GEMM, gemm_trial(params, random), facts(device, aligned=False))
        assert kernel.tile["fill_a"].width == kernel.tile["fill_b"].width == 1


def test_batches_offsets_and_odd_strides(device: Device) -> None:
    tile = SimtTile(8, 8, 4, 4, 16)
    skip_without(device, tile, "float")
    random = np.random.default_rng()
    batched = {"batch": (2, 3), "out_batch": (2, 3), "out_order": (0, 2, 1)}
    m, k, n = 33, 20, 40
    variants = [
        {"a_offset": 4, "a_strides": (k * m, 0, k, 1), "b_strides": (0, k * n, n, 1)},
        {"a_offset": 3, "a_strides": (k * m, 0, k, 1), "b_strides": (0, k * n, n, 1)},
        {"a_strides": (2 * k * m, 8, 2 * k, 2), "b_strides": (0, 0, 2 * n, 2)},
        {"a_strides": (0, 0, 0, 1), "b_strides": (k * n + 1, 0, n, 1)},
    ]
    for aligned in (False, True):
        for more in variants:
            params = product(tile, m, k, n, **batched, **more)
            check(device, GEMM, gemm_trial(params, random), facts(device, aligned))


@pytest.mark.parametrize("n", [40, 41])
def test_a_long_epilogue_is_emitted_once(device: Device, n: int) -> None:
    """For results in an array, with whole tiles and rests."""
    random = np.random.default_rng()

    def long_and(value: str, coordinates: Any, width: int) -> str:
        return f"{value} * 2 /* {'-' * 6000} */"

    for tile in (TILES[3], TILES[4], SimtTile(8, 8, 8, 8, 16)):
        skip_without(device, tile, "float")
        trial = gemm_trial(product(tile, 67, 20, n), random)
        info = facts(device, aligned=True)
        kernel = StandaloneKernel(device, "simt", GEMM, trial.params, 2, long_and, facts=info)
        assert kernel.source.count("-" * 6000) == 1
        got = kernel(*trial.operands)
        np.testing.assert_allclose(got, 2 * trial.expected, rtol=0, atol=2 * trial.tolerance)


def test_long_sums_are_sums_of_parts(on: tuple[Device, str]) -> None:
    """As the rounding errors of one chain would be larger; all of the numbers have one sign."""
    a, b = torch.rand(40, 12001), torch.rand(12001, 33)
    harness = check_on(*on, aten.mm.default, a, b, rtol=3e-6, atol=0, amx=False)
    if on[1] == "simt":
        (found,) = (n for n in harness.ctx.nodes if isinstance(n, Template))
        assert isinstance(found.params, GemmParams)
        assert 0 < found.params.k_chunk <= 5120


def test_sums_of_doubles(device: Device) -> None:
    if not device.info.fp64:
        pytest.skip("the device has no float64")
    tile, _ = choose_tile(device.info, ProductWork("double", 200, 200, 1, 50))
    random = np.random.default_rng()
    for aligned in (False, True):
        for m, k, n in ((64, 32, 64), (70, 38, 42), (67, 35, 41)):
            params = product(tile, m, k, n, "nt", "double")
            check(device, GEMM, gemm_trial(params, random), facts(device, aligned))


# -- convolutions --------------------------------------------------------------------------


def convolution(
    tile: SimtTile,
    icg: int,
    ocg: int,
    kernel: tuple[int, ...],
    size: tuple[int, ...],
    *,
    last: bool = True,
    n: int = 2,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> ConvParams:
    """``last``: channels are the last dimension of the input in memory."""
    nd, channels = len(size), icg * groups
    out = tuple(
        (s + 2 * padding - dilation * (k - 1) - 1) // stride + 1
        for s, k in zip(size, kernel, strict=True)
    )
    if last:
        strides = contiguous_strides((n, *size, channels))
    else:
        batch, channel, *spatial = contiguous_strides((n, channels, *size))
        strides = (batch, *spatial, channel)
    return ConvParams(
        n=n, in_sizes=size, out_sizes=out, groups=groups, icg=icg, ocg=ocg,
        kernel=kernel, stride=(stride,) * nd, padding=(padding,) * nd,
        dilation=(dilation,) * nd, transposed=False, x_offset=0,
        x_strides=tuple(int(s) for s in strides), acc="float", tile=tile,
    )  # fmt: skip


CONVOLUTIONS: list[dict[str, Any]] = [
    {"icg": 32, "ocg": 64, "kernel": (3, 3), "size": (8, 8), "padding": 1},
    {"icg": 32, "ocg": 33, "kernel": (3, 3), "size": (9, 7), "padding": 1, "stride": 2},
    {"icg": 20, "ocg": 36, "kernel": (1, 1), "size": (9, 7)},
    {"icg": 20, "ocg": 36, "kernel": (1, 1), "size": (9, 7), "padding": 1},
    {"icg": 20, "ocg": 20, "kernel": (3, 2), "size": (9, 7), "padding": 2, "dilation": 2},
    {"icg": 15, "ocg": 20, "kernel": (3, 2), "size": (9, 7)},
    {"icg": 3, "ocg": 32, "kernel": (7, 7), "size": (17, 16), "padding": 3, "stride": 2},
    {"icg": 1, "ocg": 5, "kernel": (3, 3), "size": (9, 10)},
    {"icg": 8, "ocg": 12, "kernel": (3, 3), "size": (7, 8), "padding": 1, "groups": 3},
    {"icg": 4, "ocg": 4, "kernel": (3, 3), "size": (7, 8), "padding": 1, "groups": 5},
    {"icg": 17, "ocg": 9, "kernel": (6, 6), "size": (8, 8)},
    {"icg": 12, "ocg": 9, "kernel": (3,), "size": (40,), "padding": 1},
    {"icg": 5, "ocg": 9, "kernel": (2, 3, 2), "size": (4, 5, 6), "padding": 1},
    {"icg": 16, "ocg": 9, "kernel": (2, 3, 2), "size": (4, 5, 6), "padding": 1, "stride": 2},
]


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("last", [False, True], ids=["planes", "last"])
@pytest.mark.parametrize("tile", [TILES[0], TILES[3]], ids=["large", "small"])
def test_convolutions(device: Device, tile: SimtTile, last: bool, aligned: bool) -> None:
    skip_without(device, tile, "float")
    random = np.random.default_rng()
    for case in CONVOLUTIONS if tile == TILES[3] else CONVOLUTIONS[::3]:
        params = convolution(tile, **case, last=last)
        kernel = check(device, CONV, conv_trial(params, random), facts(device, aligned))
        vectors = aligned and last and case["icg"] % 4 == 0 and case["icg"] >= 8
        assert kernel.tile["fill_a"].width == (4 if vectors else 1)


@pytest.mark.parametrize("case", [CONVOLUTIONS[i] for i in (0, 4, 9, 11, 13)])
def test_convolutions_in_parts(device: Device, case: dict[str, Any]) -> None:
    tile = TILES[3]
    skip_without(device, tile, "float")
    params = convolution(tile, **case)
    trial = conv_trial(params, np.random.default_rng())
    assert trial is not None
    for wanted in (2, 5):
        parts = parts_of_sum(math.prod(case["kernel"]), case["icg"], tile.slab, wanted)
        whole = dataclasses.replace(params, parts=parts)
        kernel = StandaloneKernel(device, "simt", CONV, whole, facts=facts(device, aligned=True))
        got = kernel(*trial.operands)
        assert len(got) == parts or parts == 1
        got = got.sum(0) if parts > 1 else got
        np.testing.assert_allclose(got, trial.expected, rtol=0, atol=trial.tolerance)


def test_few_results_of_long_sums(on: tuple[Device, str]) -> None:
    """As a device with many compute units has them, lowered."""
    for m, k, n in ((20, 1000, 30), (64, 700, 32), (1, 3001, 5)):
        a, b = torch.randn(m, k) / k**0.5, torch.randn(k, n)
        check_on(*on, aten.mm.default, a, b, compute_units=64, amx=False)
    batched = torch.randn(3, 5, 900) / 30, torch.randn(3, 900, 7)
    check_on(*on, aten.bmm.default, *batched, compute_units=64, amx=False)
    x, w = torch.randn(1, 64, 6, 5), torch.randn(24, 64, 3, 3) / 24
    more = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    harness = check_on(*on, aten.convolution.default, x, w, None, *more, compute_units=64)
    if on[1] == "simt":
        (found,) = (n for n in harness.ctx.nodes if isinstance(n, Template))
        assert isinstance(found.params, ConvParams) and found.params.parts > 1


def test_a_table_serves_few_channels() -> None:
    assert table_entries(49, 3, 16) == 160
    assert table_entries(9, 4, 16) == 48
    assert table_entries(9, 64, 16) == table_entries(1, 3, 16) == table_entries(9, 60, 16) == 0
    assert table_entries(125, 5, 16) == 0  # too long


# -- the choice ----------------------------------------------------------------------------


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("width", [1, 4])
def test_a_slab_is_read_once(deep: bool, width: int) -> None:
    for extent in (8, 32, 128):
        for slab in (4, 16):
            for items in (1, 64, 256):
                fill = Fill(extent, slab, items, deep, width)
                found = []
                for lid in range(min(items, fill.units)):
                    texts = fill.first_row, fill.first_k
                    row, k = (eval(x.replace("/", "//"), {"lid": lid}) for x in texts)
                    for r, s in fill.places:
                        found += [
                            (row + r, k + s + i) if deep else (row + r + i, k + s)
                            for i in range(width)
                        ]
                assert sorted(found) == [(r, s) for r in range(extent) for s in range(slab)]


def test_the_choice_respects_the_device(device: Device) -> None:
    sizes = [(64, 16 << 10), (128, 32 << 10), (256, 48 << 10), (1024, 64 << 10), (1, 1 << 10)]
    for items, local in sizes:
        info = dataclasses.replace(
            device.info, max_work_group_size=items, local_mem_bytes=local, compute_units=100
        )
        for acc in ("float", "double"):
            for rows, columns in ((4096, 4096), (100, 64), (7, 3), (1 << 20, 8)):
                work = ProductWork(acc, rows, columns, 2, 300, 4 << 10 if local > 4 << 10 else 0)
                tiles = candidate_tiles(info, work)
                assert tiles[0] == choose_tile(info, work)[0]
                most = local - work.extra_bytes
                assert all(t.items <= items and local_bytes(t, acc) <= most for t in tiles)


def large_device(device: Device) -> DeviceInfo:
    return dataclasses.replace(
        device.info, max_work_group_size=1024, local_mem_bytes=48 << 10, compute_units=132
    )


def test_large_tiles_only_where_they_keep_the_device_busy(device: Device) -> None:
    info = large_device(device)
    tile, parts = choose_tile(info, ProductWork("float", 4096, 4096, 1, 4096))
    assert (tile.rows, tile.columns, parts) == (128, 128, 1)
    for depth in (64, 512):
        tile, parts = choose_tile(info, ProductWork("float", 512, 512, 1, depth))
        assert 512 // tile.rows * (512 // tile.columns) * parts > 100
    assert choose_tile(info, ProductWork("float", 50176, 64, 1, 576))[0].columns == 64


def test_long_sums_of_few_results_are_computed_in_parts(device: Device) -> None:
    info = large_device(device)
    assert choose_tile(info, ProductWork("float", 64, 64, 1, 50176))[1] > 8
    assert choose_tile(info, ProductWork("float", 64, 64, 1, 64))[1] == 1
    assert choose_tile(info, ProductWork("float", 4096, 4096, 1, 4096))[1] == 1
    assert choose_tile(info, ProductWork("float", 4096, 4096, 1, 20000))[1] >= 4  # for accuracy
    assert choose_tile(info, ProductWork("float", 4096, 4096, 1, 2**20))[1] >= 64
    # Weight gradients: more than one work-group for each compute unit.
    for rows, columns, depth in ((64, 576, 50176), (256, 1024, 3136), (256, 2304, 3136)):
        tile, parts = choose_tile(info, ProductWork("float", rows, columns, 1, depth))
        groups = math.ceil(rows / tile.rows) * math.ceil(columns / tile.columns) * parts
        assert groups * tile.items > 2.5 * 128 * info.compute_units
