"""When attention goes through the matrix unit (templates/attention/matrix_attention.py)."""

from __future__ import annotations

from ocl_inductor.ir.index import is_static, prod
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.templates.attention.matrix_attention import words_of_head
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.gemm.matrix_gemm import BLOCK, DEPTH
from ocl_inductor.templates.matrix_unit_costs import matrix_unit_costs


def blocks_for_unit(ctx: LoweringContext, acc: str, a: Attention) -> int:
    """Blocks of 32 queries to a work-item of the unit; 0: it cannot, or vectors are faster."""
    if not ctx.device.amx or acc != "float" or not is_static(a.n):
        return 0
    n, width, v_width = int(a.n), int(a.width), int(a.v_width)
    costs = matrix_unit_costs(ctx.device)
    if width % DEPTH or v_width % DEPTH or words_of_head(n, width, v_width) > costs.max_parts:
        return 0
    blocks, heads = ceil_div(ctx.hint(a.m), BLOCK), ctx.hint(prod(a.batch))
    wanted = costs.items_per_unit * ctx.device.compute_units
    chunks = min(blocks, ceil_div(wanted, heads))
    rows, keys, both = blocks * BLOCK, ceil_div(n, DEPTH) * DEPTH, width + v_width
    by_unit = rows * keys * (both * costs.by_unit + costs.attention_weight)
    by_unit += chunks * keys * both * costs.split_alone
    by_vectors = ctx.hint(a.m) * n * both * costs.attention_by_vectors
    return ceil_div(blocks, chunks) if by_unit < by_vectors else 0
