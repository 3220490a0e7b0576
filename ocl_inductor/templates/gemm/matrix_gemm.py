"""Batched matrix product in float32 by a CPU's matrix unit (AMX), which multiplies bfloat16.

Each operand is the sum of three bfloat16 parts, and six products of parts are summed in float32.
That is BF16x6 of G. Henry, P. Tang and A. Heinecke, "Leveraging the bfloat16 Artificial
Intelligence Datatype For Higher-Precision Computations" (ARITH 2019), with parts that are cut off
instead of rounded. What is left out is below 2^-22 of a product. Sums of 768 normally distributed
products come out closer to float64's than eager's (2.2e-7 of their rms against 3.5e-7); sums that a
few products dominate need not (7.6e-8 of the sum of magnitudes against 6.3e-8).

Blocks of 32 x 32 whose operands have infinities, NaN or nothing but numbers near the smallest ones
are multiplied without the unit.

Parameters (strides in elements, static or symbolic; ``n k`` static):

* ``m n k batch out_batch out_order a_offset a_strides b_layout b_strides b_offset``: as of gemm.py;
  ``b_layout`` is ``"panels"``, or B lies where it is: ``"rows"``, with unit stride in n, which is
  divisible by 32, or ``"columns"``, with unit stride in k; ``b_strides`` then has (\\*batch, k, n);
* ``nr``: columns of a panel, ``kc``: K of a block of B, both multiples of 32; ``mb``: blocks of 32
  rows to a work-item; ``acc``: ``"float"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, prod
from ocl_inductor.templates.blocking import size_ceil_div
from ocl_inductor.templates.gemm.gemm import GEMM, store_edges
from ocl_inductor.templates.spec import LaunchGrid, Params, Profile, TemplateSpec

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


def unit_stride(strides: Sequence[Size]) -> str:
    """Which of the last two dimensions, ``"row"`` and ``"k"``, has unit stride; or ``""``."""
    row, k = strides[-2:]
    return "k" if k == 1 else "row" if row == 1 else ""


def _tile(device: DeviceInfo, profile: Profile, p: Params) -> dict[str, Any]:
    outer = [*(f"bo{d}" for d in range(len(p["out_batch"]))), "m"]
    lanes = min(device.vector_width, BLOCK // 2)
    return {
        "out_prefix": [outer[d] for d in p["out_order"]],
        "W": lanes,
        "unit": unit_stride(p["a_strides"]),
        "NR": p["nr"],
        "KC": min(p["kc"], -(-p["k"] // BLOCK) * BLOCK),
        "MB": p["mb"],
        "step": STEP,
        "prefetched": device.prefetch,
        "ahead": PREFETCH_ROWS,
        "least_exponent": LEAST_EXPONENT,
        "least_sum": LEAST_SUM,
        **store_edges(p["n"], lanes, BLOCK),
    }


def _launch(p: Params, tile: Mapping[str, Any]) -> LaunchGrid:
    chunks = size_ceil_div(p["m"], BLOCK * p["mb"])
    return LaunchGrid((size_ceil_div(p["n"], p["nr"]), chunks, prod(p["batch"])), (1, 1, 1))


MATRIX_GEMM = TemplateSpec(
    name="matrix_gemm",
    file="gemm/matrix_gemm.cl.jinja",
    out_space=GEMM.out_space,
    tile=_tile,
    launch=_launch,
    flops=GEMM.flops,
    bytes=GEMM.bytes,
    reference=GEMM.reference,
)
