"""When and how a matrix product goes through the vectors' products of bfloat16 pairs
(templates/gemm/bf16_gemm.py)."""

from __future__ import annotations

import torch

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.matmul.problem import Gemm
from ocl_inductor.lowering.matmul.product_limits import product_limits
from ocl_inductor.lowering.matmul.product_operands import realize_along, with_split_batch
from ocl_inductor.templates.blocking import Blocking, candidate_blockings, with_tall_items
from ocl_inductor.templates.gemm.bf16_gemm import BF16_GEMM, Bf16GemmParams
from ocl_inductor.templates.gemm.skinny_gemm import VERY_FEW

#: Lanes of float32 in a register of those CPUs.
LANES = 16
#: Terms from which a product pays for its panels.
_MIN_TERMS = 16


def bf16_product(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product of bfloat16 to float32."""
    a, b, out_order = problem.a, problem.b, problem.order
    m, k, n = a.size[-2], a.size[-1], b.size[-1]
    if not ctx.device.bf16_dot:
        return Declined("the device has no products of pairs of bfloat16")
    if a.dtype is not torch.bfloat16 or b.dtype is not torch.bfloat16:
        return Declined(f"operands of {a.dtype} and {b.dtype}, not bfloat16")
    if not is_static(k) or int(k) % 2 or int(k) < _MIN_TERMS:
        return Declined(f"sums of {k} terms: not an even number of at least {_MIN_TERMS}")
    if ctx.hint(m) <= VERY_FEW or ctx.hint(n) <= LANES // 2:
        return Declined(f"{m} rows and {n} columns are too few for its tiles")
    out_batch = a.size[:-2]
    blocking = _blocking(ctx, out_batch, m, int(k), n)
    if blocking is None:
        return Declined(f"a panel of {k} rows does not stay in a core's cache")
    a, b = with_split_batch(a, b)
    a, a_view = realize_along(ctx, a, torch.bfloat16, (-1,))
    b, b_view = realize_along(ctx, b, torch.bfloat16, (-1, -2))
    params = Bf16GemmParams(
        m=m, n=n, k=int(k),
        batch=a.size[:-2], out_batch=out_batch, out_order=out_order,
        a_offset=a_view.offset, a_strides=a_view.stride,
        b_offset=b_view.offset, b_strides=b_view.stride,
        acc="float", tile=blocking,
    )  # fmt: skip
    size, order = (*out_batch, m, n), (*out_order, len(out_batch) + 1)
    return ctx.template(BF16_GEMM, torch.float32, size, order, [a, b], params)


def _blocking(
    ctx: LoweringContext, batch: tuple[Size, ...], m: Size, k: int, n: Size
) -> Blocking | None:
    """The best whose panels stay in cache; None where even the narrowest's do not."""
    rows, columns, batches = ctx.hint(m), ctx.hint(n), ctx.hint(prod((1, *batch)))
    for x in candidate_blockings(ctx.device, "float", rows, columns, batches, 2 * k * columns):
        if x.lanes == LANES and panel_fits(ctx.device, x, k):
            return with_tall_items(ctx.device, x, rows, columns, batches)
    return None


def panel_fits(device: DeviceInfo, blocking: Blocking, k: int) -> bool:
    """Whether a panel of ``k`` terms stays in a core's cache."""
    return 2 * k * blocking.nr <= product_limits(device).max_own_panel * device.caches.l2
