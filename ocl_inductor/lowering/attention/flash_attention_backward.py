"""When and how attention's gradients go through two kernels (attention_backward.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ocl_inductor.ir.index import Size, is_static, loop_vars, prod, same
from ocl_inductor.lowering.attention.call import Attention
from ocl_inductor.lowering.attention.operands import additive_mask, operand_in_place, row_order
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, reindex
from ocl_inductor.lowering.matmul.product_operands import accumulator
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
    params: dict[str, Any] = {
        "m": m, "n": n, "width": int(width), "batch": batch,
        "masked": a.mask is not None, "causal": a.causal,
        "scale": a.factor(),
        "acc": acc,
    }  # fmt: skip
    if a.mask is not None:
        found.append(additive_mask(ctx, a.mask, (*batch, m, n), dtype, rows_adjacent=True))
    for name, operand in zip(("q", "k", "v", "g", "s", "d", "mask"), found, strict=False):
        params |= {f"{name}_strides": operand.strides, f"{name}_offset": operand.offset}
    operands = [x.value for x in found]

    def gradient(
        of: str, dims: list[int], rows: Size, lead: list[int], order: Sequence[int]
    ) -> Value:
        outer = [batch[d] for d in dims]
        places = [*(range(len(lead))), *(len(lead) + d for d in order)]
        lanes, vectors = choose_query_vectors(
            ctx.device, acc, ctx.hint(rows), ctx.hint(prod(outer)), _MAX_VECTORS
        )
        return ctx.template(
            "attention_backward",
            dtype,
            (*lead, *outer, rows, int(width)),
            (*places, len(places)),
            operands,
            of=of,
            summed=tuple(d for d in range(len(batch)) if d not in dims),
            out_order=tuple(order),
            lanes=lanes,
            nv=vectors,
            **params,
        )

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
