"""Batched matrix product in float32 by a CPU's matrix unit (AMX), which multiplies bfloat16.

Each operand is the sum of three bfloat16 parts, and six products of parts are summed in float32.
That is BF16x6 of G. Henry, P. Tang and A. Heinecke, "Leveraging the bfloat16 Artificial
Intelligence Datatype For Higher-Precision Computations" (ARITH 2019), with parts that are cut off
instead of rounded. What is left out is below 2^-22 of a product. Sums of 768 normally distributed
products come out closer to float64's than eager's (2.2e-7 of their rms against 3.5e-7); sums that a
few products dominate need not (7.6e-8 of the sum of magnitudes against 6.3e-8).

Blocks of 32 x 32 whose operands have infinities, NaN or nothing but numbers near the smallest ones
are multiplied without the unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.gemm.gemm import (
    ProductParams,
    product_bytes,
    product_flops,
    product_reference,
    product_space,
    store_edges,
)
from ocl_inductor.templates.spec import LaunchGrid, Profile, TemplateSpec

#: Rows and columns of a block of sums; K of a step, which is a tile.
BLOCK, DEPTH = 32, 32
#: 32-bit words of the three parts of 16 rows or columns and a step: tiles of 16 pairs. Number i of
#: a step is paired with number i + 16, which takes no exchange between lanes.
STEP = 3 * 256
#: Exponents (with their bias of 127) that the largest number of a block exceeds, alone and summed
#: with the other operand's: the third part of a number 2^-20 as large is still a normal one.
LEAST_EXPONENT, LEAST_SUM = 60, 180

#: Rows of B from a prefetch to the use of its line.
PREFETCH_ROWS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixGemmParams(ProductParams):
    """``n`` and ``k`` are static; ``acc`` is "float".

    ``b_layout``: ``"panels"`` as of gemm.py, or B lies where it is: ``"rows"``, with unit stride in
    n, which is divisible by 32, or ``"columns"``, with unit stride in k; ``b_strides`` then has
    (\\*batch, k, n). ``nr``: columns of a panel, ``kc``: K of a block of B, both multiples of 32;
    ``mb``: blocks of 32 rows to a work-item.
    """

    n: int
    k: int
    b_layout: Literal["panels", "rows", "columns"]
    nr: int
    kc: int
    mb: int


def unit_stride(strides: Sequence[Size]) -> str:
    """Which of the last two dimensions, ``"row"`` and ``"k"``, has unit stride; or ``""``."""
    row, k = strides[-2:]
    return "k" if k == 1 else "row" if row == 1 else ""


def _tile(device: DeviceInfo, profile: Profile, p: MatrixGemmParams) -> dict[str, object]:
    outer = [*(f"bo{d}" for d in range(len(p.out_batch))), "m"]
    lanes = min(device.vector_width, BLOCK // 2)
    return {
        "out_prefix": [outer[d] for d in p.out_order],
        "W": lanes,
        "unit": unit_stride(p.a_strides),
        "NR": p.nr,
        "KC": min(p.kc, -(-p.k // BLOCK) * BLOCK),
        "MB": p.mb,
        "step": STEP,
        "prefetched": device.prefetch,
        "ahead": PREFETCH_ROWS,
        "least_exponent": LEAST_EXPONENT,
        "least_sum": LEAST_SUM,
        **store_edges(p.n, lanes, BLOCK),
    }


def _launch(p: MatrixGemmParams, tile: Mapping[str, object]) -> LaunchGrid:
    chunks = size_ceil_div(p.m, BLOCK * p.mb)
    return LaunchGrid((size_ceil_div(p.n, p.nr), chunks, prod(p.batch)), (1, 1, 1))


MATRIX_GEMM: TemplateSpec[MatrixGemmParams] = TemplateSpec(
    name="matrix_gemm",
    params=MatrixGemmParams,
    file="gemm/matrix_gemm.cl.jinja",
    out_space=product_space,
    tile=_tile,
    launch=_launch,
    flops=product_flops,
    bytes=lambda p: product_bytes(p, 4, 4),
    reference=product_reference,
)
