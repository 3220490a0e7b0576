"""Products of very few rows of bfloat16 with a matrix that is read in place, once: decoding.

Sums are float32, by vdpbf16ps, whose arithmetic dot_gemm.py describes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import prod
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.gemm.gemm import store_edges
from ocl_inductor.templates.gemm.skinny_gemm import (
    FEW_ROWS,
    SkinnyParams,
    columns_of_item,
    fetches_next,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec, Tile

#: Elements that a register of pairs holds.
VECTOR = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Bf16SkinnyParams(SkinnyParams):
    """``m`` (at most ``VERY_FEW``), ``k`` (at least ``VECTOR``) and ``n`` (at least
    ``row_count(m)``) are static; ``acc`` is "float"."""

    m: int
    n: int
    k: int
    columns: int = 0  # nothing to try: a trial's operands are as wide as its sums


def row_count(rows: int) -> int:
    """Rows of W that are read side by side for so many of A: 24 or 16 sums, of 32 registers."""
    return 8 if rows <= 3 else 4


def _tile(device: DeviceInfo, profile: Profile, p: Bf16SkinnyParams) -> dict[str, object]:
    return {
        "out_prefix": [*(f"bi{d}" for d in range(len(p.batch))), "m"],
        "LANES": p.lanes,
        "RC": row_count(p.m),
        "NB": columns_of_item(device, p),
        "names_registers": device.names_registers,
        "ahead": fetches_next(device, row_count(p.m), p),
        **store_edges(p.n, p.lanes, p.lanes),
    }


def _launch(p: Bf16SkinnyParams, tile: Tile) -> LaunchGrid:
    return LaunchGrid((size_ceil_div(p.n, tile["NB"]), prod(p.batch), 1), (1, 1, 1))


BF16_ROWS: TemplateSpec[Bf16SkinnyParams] = TemplateSpec(
    name="bf16_skinny_gemm",
    params=Bf16SkinnyParams,
    file="gemm/bf16_skinny_gemm.cl.jinja",
    out_space=FEW_ROWS.out_space,
    tile=_tile,
    launch=_launch,
    flops=FEW_ROWS.flops,
    bytes=FEW_ROWS.bytes,
    reference=FEW_ROWS.reference,
)
