"""Batched matrix product of bfloat16 or of bytes by a CPU's matrix unit (AMX).

Products of bfloat16 are summed in float32, with subnormal numbers taken for 0 (Intel's manual,
volume 2, TDPBF16PS), as the libraries that eager uses on such a processor do. Products of bytes are
summed in int32, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import is_static, prod, same
from ocl_inductor.templates.blocking import ceil_div, size_ceil_div
from ocl_inductor.templates.gemm.gemm import (
    ProductParams,
    product_bytes,
    product_flops,
    product_reference,
    product_space,
    store_edges,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec

#: Rows and columns of a block of sums.
BLOCK = 32
#: Bytes of K in a step, which is a row of a tile.
STEP_BYTES = 64
#: Bytes of a row from a prefetch to its use.
AHEAD = 256

Operands: TypeAlias = Literal["bfloat16", "int8", "uint8"]

#: What multiplies tiles of A by tiles of B, which has bytes with a sign.
INSTRUCTIONS: dict[Operands, str] = {
    "bfloat16": "tdpbf16ps",
    "int8": "tdpbssd",
    "uint8": "tdpbusd",
}
#: And what multiplies tiles of B' by tiles of A'.
TURNED: Mapping[Operands, str] = INSTRUCTIONS | {"uint8": "tdpbsud"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowGemmParams(ProductParams):
    """``k`` is static; A has unit stride in k or in its rows, B in k or in n.

    ``turned``: the unit computes the transposed product, so that A is put in the order of tiles
    that the other operand needs, B is copied, and results are transposed.

    ``operands``: the type of A, and of B but for the sign of bytes; ``acc`` is "float" for
    bfloat16, else "int". ``nr``: columns of a panel, a multiple of 32; ``mb``: blocks of 32 rows to
    a work-item; of the transposed product, where it is turned.
    """

    k: int
    operands: Operands
    nr: int
    mb: int
    turned: bool = False


def operand_bytes(operands: Operands) -> int:
    """Of an element."""
    return 2 if operands == "bfloat16" else 1


def _tile(device: DeviceInfo, profile: Profile, p: NarrowGemmParams) -> dict[str, object]:
    outer = [*(f"bo{d}" for d in range(len(p.out_batch))), "m"]
    lanes = min(device.vector_width, BLOCK // 2)
    size = operand_bytes(p.operands)
    depth = STEP_BYTES // size
    steps = p.a_strides[-1], p.b_strides[-2]
    rows_step, columns_step = reversed(steps) if p.turned else steps
    return {
        "out_prefix": [outer[d] for d in p.out_order],
        "W": lanes,
        "BYTES": size,
        "DEPTH": depth,
        "STEPS": ceil_div(p.k, depth),
        "ahead": AHEAD if device.prefetch else 0,
        "tail": p.k % depth,
        "turned": p.turned,
        "unit_rows": "k" if same(rows_step, 1) else "row",
        "unit_columns": "k" if same(columns_step, 1) else "n",
        # Whether all tiles of what is read across K have 16 rows or columns.
        "whole_across": all(
            is_static(extent) and int(extent) % BLOCK == 0
            for extent, step in ((p.m, p.a_strides[-1]), (p.n, p.b_strides[-2]))
            if not same(step, 1)
        ),
        "NR": p.nr,
        "MB": p.mb,
        "instruction": (TURNED if p.turned else INSTRUCTIONS)[p.operands],
        **store_edges(p.n, lanes, BLOCK),
    }


def _launch(p: NarrowGemmParams, tile: Mapping[str, object]) -> LaunchGrid:
    rows, columns = (p.n, p.m) if p.turned else (p.m, p.n)
    chunks = size_ceil_div(rows, BLOCK * p.mb)
    return LaunchGrid((size_ceil_div(columns, p.nr), chunks, prod(p.batch)), (1, 1, 1))


NARROW_GEMM: TemplateSpec[NarrowGemmParams] = TemplateSpec(
    name="narrow_gemm",
    params=NarrowGemmParams,
    file="gemm/narrow_gemm.cl.jinja",
    out_space=product_space,
    tile=_tile,
    launch=_launch,
    flops=product_flops,
    bytes=lambda p: product_bytes(p, operand_bytes(p.operands), 4),
    reference=product_reference,
)
