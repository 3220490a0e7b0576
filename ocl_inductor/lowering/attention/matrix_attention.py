"""When attention goes through the matrix unit (templates/attention/matrix_attention.py)."""

from __future__ import annotations

from ocl_inductor.ir.index import is_static, prod
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.matmul.matrix_product import (
    BY_UNIT,
    ITEMS_PER_UNIT,
    MAX_PARTS,
    SPLIT_ALONE,
)
from ocl_inductor.templates.attention.matrix_attention import words_of_head
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.gemm.matrix_gemm import BLOCK, DEPTH

#: Nanoseconds of one core: of a multiplication in attention.py, and of a weight here,
#: what of its exponential and its splitting takes longer than the unit's work. Measured on two
#: cores, ms by vectors and by the unit: 4x3x197x64 0.56 and 0.48, 4x12x128x64 0.97 and 0.78,
#: 1x8x1024x64 8.6 and 5.6; 1x12x64x64 0.101 and 0.104.
_BY_VECTORS, _WEIGHT = 0.0165, 0.6


def blocks_for_unit(ctx: LoweringContext, acc: str, a: Attention) -> int:
    """Blocks of 32 queries to a work-item of the unit; 0: it cannot, or vectors are faster."""
    if not ctx.device.amx or acc != "float" or not is_static(a.n):
        return 0
    n, width, v_width = int(a.n), int(a.width), int(a.v_width)
    if width % DEPTH or v_width % DEPTH or words_of_head(n, width, v_width) > MAX_PARTS:
        return 0
    blocks, heads = ceil_div(ctx.hint(a.m), BLOCK), ctx.hint(prod(a.batch))
    wanted = ITEMS_PER_UNIT * ctx.device.compute_units
    chunks = min(blocks, ceil_div(wanted, heads))
    rows, keys, both = blocks * BLOCK, ceil_div(n, DEPTH) * DEPTH, width + v_width
    by_unit = rows * keys * (both * BY_UNIT + _WEIGHT) + chunks * keys * both * SPLIT_ALONE
    by_vectors = ctx.hint(a.m) * n * both * _BY_VECTORS
    return ceil_div(blocks, chunks) if by_unit < by_vectors else 0
