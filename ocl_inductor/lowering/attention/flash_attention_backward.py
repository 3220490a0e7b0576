"""When and how attention's gradients go through two kernels (attention_backward.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.attention.operands import additive_mask, operand_in_place, row_order
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.matmul.product_operands import accumulator
from ocl_inductor.templates.attention.attention_backward import (
    ATTENTION_BACKWARD,
    AttentionBackwardParams,
)
from ocl_inductor.templates.blocking import choose_query_vectors

#: With fewer rows most lanes would idle.
_MIN_ROWS = 4
#: Operands, results and a block's scores of a work-item must stay in a second level cache.
_MAX_WIDTH = 256
_MAX_VECTORS = 2


def flash_attention_backward(
    ctx: LoweringContext,
    a: Attention,
    grad: Value,
    logsumexp: Value,
    row_products: Value,
    summed: Sequence[int],
) -> tuple[Value, Value, Value] | None:
    """dQ, dK and dV, all operands in the compute dtype.

    ``logsumexp`` and ``row_products`` (the sums of dO * O) are (\\*batch, m). Over the dimensions
    ``summed`` of the batch dK and dV are summed: there they have extent 1. None: the kernels do not
    suit.
    """
    batch, m, n, width = a.batch, a.m, a.n, a.width
    if (
        ctx.device.profile != "vector"
        or not is_static(width)
        or not same(width, a.v_width)
        or int(width) > _MAX_WIDTH
        or min(ctx.hint(m), ctx.hint(n)) < _MIN_ROWS
    ):
        return None
    dtype = a.query.dtype
    values = (a.query, a.key, a.value, grad, logsumexp, row_products)
    found = [operand_in_place(ctx, x) for x in values]
    acc = accumulator(dtype)
    if a.mask is not None:
        found.append(additive_mask(ctx, a.mask, (*batch, m, n), dtype, rows_adjacent=True))
    q, k, v, g, s, d, *mask = found
    operands = [x.value for x in found]

    def gradient(
        of: Literal["queries", "keys"],
        dims: list[int],
        rows: Size,
        lead: list[int],
        order: Sequence[int],
    ) -> Value:
        outer = [batch[d] for d in dims]
        places = [*(range(len(lead))), *(len(lead) + d for d in order)]
        params = AttentionBackwardParams(
            m=m, n=n, width=int(width), batch=batch,
            q_strides=q.strides, q_offset=q.offset,
            k_strides=k.strides, k_offset=k.offset,
            v_strides=v.strides, v_offset=v.offset,
            g_strides=g.strides, g_offset=g.offset,
            s_strides=s.strides, s_offset=s.offset,
            d_strides=d.strides, d_offset=d.offset,
            mask_strides=mask[0].strides if mask else (),
            mask_offset=mask[0].offset if mask else 0,
            masked=a.mask is not None, causal=a.causal, scale=a.factor(),
            of=of,
            summed=tuple(d for d in range(len(batch)) if d not in dims),
            out_order=tuple(order),
            tile=choose_query_vectors(
                ctx.device, acc, ctx.hint(rows), ctx.hint(prod(outer)), _MAX_VECTORS
            ),
            acc=acc,
        )  # fmt: skip
        size = (*lead, *outer, rows, int(width))
        layout = (*places, len(places))
        return ctx.template(ATTENTION_BACKWARD, dtype, size, layout, operands, params)

    everywhere = list(range(len(batch)))
    dq = gradient("queries", everywhere, m, [], row_order(ctx, a.query))
    kept = [d for d in everywhere if d not in summed]
    # The order of the key's own dimensions, without those that are summed up.
    order = [d for d in row_order(ctx, a.key) if d not in summed]
    order = [(*kept, len(batch)).index(d) for d in order]
    both = gradient("keys", kept, n, [2], order)

    def part(number: int) -> Value:
        size = [1 if d in summed else s for d, s in enumerate(batch)]
        coordinates = loop_vars(len(batch) + 2)
        index = [number, *(coordinates[d] for d in kept), *coordinates[-2:]]
        return reindex(both, (*size, n, width), index)

    return dq, part(0), part(1)
