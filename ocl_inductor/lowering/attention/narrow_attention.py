"""When attention of bfloat16 goes through the matrix unit
(templates/attention/narrow_attention.py)."""

from __future__ import annotations

import torch

from ocl_inductor.ir.index import is_static, prod, same
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.attention.operands import Operand, operand_in_place
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.templates.attention.narrow_attention import bytes_of_head
from ocl_inductor.templates.blocking import ceil_div
from ocl_inductor.templates.gemm.narrow_gemm import BLOCK
from ocl_inductor.templates.matrix_unit_costs import matrix_unit_costs


def blocks_of_queries(ctx: LoweringContext, a: Attention) -> int | Declined:
    """Blocks of 32 queries to a work-item, or why the unit does not suit. Head sizes are known."""
    if not ctx.device.amx or ctx.device.profile == "simt" or a.query.dtype is not torch.bfloat16:
        return Declined("the device has no matrix unit for this dtype")
    if not is_static(a.n):
        return Declined("the number of keys is not known")
    costs = matrix_unit_costs(ctx.device)
    head = bytes_of_head(int(a.n), int(a.width), int(a.v_width))
    if head > costs.narrow_panel * ctx.device.caches.l2:
        return Declined(f"keys and values of a head ({head} bytes) do not stay in a core's cache")
    blocks, heads = ceil_div(ctx.hint(a.m), BLOCK), ctx.hint(prod(a.batch))
    wanted = costs.items_per_unit * ctx.device.compute_units
    return ceil_div(blocks, min(blocks, ceil_div(wanted, heads)))


def adjacent_columns(ctx: LoweringContext, value: Value) -> Operand:
    """``value`` in memory with unit stride along its last dimension; else a copy."""
    found = operand_in_place(ctx, value)
    if same(found.strides[-1], 1):
        return found
    return operand_in_place(ctx, ctx.realize(value, tuple(range(value.ndim))))
