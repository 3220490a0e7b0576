"""When attention goes through matrix instructions (templates/attention/mma_attention.py)."""

from __future__ import annotations

from ocl_inductor.ir.index import known_multiple, prod, same
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.attention.operands import Operand, operand_in_place
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.matmul.mma_product import HALVES, RUN, takes_halves
from ocl_inductor.templates.attention.mma_attention import WIDTHS, MmaQueryTile, choose_query_tile


def tile_of_instructions(ctx: LoweringContext, a: Attention) -> MmaQueryTile | Declined:
    """The tile, or why the instructions do not suit. Head sizes are known."""
    if not (takes_halves(ctx, a.query, a.key) and a.value.dtype in HALVES):
        return Declined("the device has no matrix instructions for these dtypes")
    width, v_width = int(a.width), int(a.v_width)
    if width % RUN or v_width % RUN or max(width, v_width) > WIDTHS[-1]:
        return Declined(f"rows of {width} and {v_width}: not multiples of {RUN} to {WIDTHS[-1]}")
    heads = ctx.hint(prod(a.batch))
    tile = choose_query_tile(ctx.device, ctx.hint(a.m), heads, width, v_width)
    return tile or Declined("its tiles do not fit into local memory")


def rows_in_runs(ctx: LoweringContext, value: Value) -> Operand:
    """``value`` in memory with rows of whole runs of 16 bytes; a copy where they are not."""
    found = operand_in_place(ctx, value)
    *steps, last = found.strides
    if same(last, 1) and all(known_multiple(x, RUN) for x in (found.offset, *steps)):
        return found
    return operand_in_place(ctx, ctx.realize(value, tuple(range(value.ndim))))
