"""What is cut to fit a cache follows the processor's caches, not those that were measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy
import torch
from evaluate import make_device

from ocl_inductor.codegen.passes.streams import streams
from ocl_inductor.codegen.printers.nontemporal import least_streamed, streamed_results
from ocl_inductor.device.cpu.caches import Caches
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import Access, Expr
from ocl_inductor.ir.nodes import dense_buffer
from ocl_inductor.templates.blocking import prefetching
from ocl_inductor.templates.gemm.skinny_gemm import FEW_ROWS, SkinnyParams


def device(**caches: int) -> DeviceInfo:
    return replace(make_device(), caches=Caches(**caches))


def test_large_results() -> None:
    assert least_streamed(device()) == 8 << 20
    results = [dense_buffer(str(n), torch.float32, (n << 18,)) for n in (1, 3, 9)]
    for caches, wanted in (({}, {"9"}), ({"l3": 8 << 20}, {"3", "9"}), ({"l3": 64 << 20}, set())):
        assert streamed_results(results, frozenset(), device(**caches), int) == wanted


def test_what_is_asked_for_ahead() -> None:
    """A buffer of 3 MiB is a stream to second-level caches of 1 MiB."""
    row, lane = sympy.symbols("i0 i1", integer=True, nonnegative=True)
    size = {row: 768, lane: 1024}
    load = Expr("load", (), torch.float32, Access("x", row * 1024 + lane))

    class Member:
        body, kind = load, "reduction"

    def asked(**caches: int) -> Any:
        levels: Any = [[Member()]]
        return streams(levels, {}, [row, lane], size, 1024, int, Caches(**caches))

    assert asked() == [{"x": 768}]
    assert asked(l2=2 << 20) == [{}]


def test_lines() -> None:
    positions = prefetching(device(line=128), 64, "float", 100)["prefetched"]
    assert list(positions) == [0, 32]
    assert list(prefetching(device(), 64, "double", 100)["prefetched"]) == list(range(0, 64, 8))


def test_blocks_of_few_rows() -> None:
    """A block of a weight shares the first-level cache with a tile of rows."""
    p = SkinnyParams(
        m=24, n=512, k=4096, batch=(), mb=24, a_offset=0, a_strides=(4096,), w_offset=0,
        w_strides=(4096,), w_itemsize=4, lanes=8, acc="float",
    )  # fmt: skip
    block = {}
    for l1 in (8 << 10, 32 << 10):
        tile = FEW_ROWS.tile(device(l1=l1), "vector", p)
        block[l1] = tile["k_block"] * tile["RC"] * 4
    assert block[8 << 10] <= 8 << 10 < block[32 << 10] <= 32 << 10
