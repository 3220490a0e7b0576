"""When and how a matrix product of bfloat16 or of bytes goes through the vectors' products of words
(templates/gemm/dot_gemm.py)."""

from __future__ import annotations

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.index import Size, is_static, prod
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.matmul.narrow_product import OPERANDS
from ocl_inductor.lowering.matmul.problem import Gemm
from ocl_inductor.lowering.matmul.product_limits import product_limits
from ocl_inductor.lowering.matmul.product_operands import realize_along, with_split_batch
from ocl_inductor.templates.blocking import Blocking, candidate_blockings, with_tall_items
from ocl_inductor.templates.gemm.dot_gemm import DOT_GEMM, DotGemmParams
from ocl_inductor.templates.gemm.dot_words import DOT_WORDS, LANES, DotWords, fits_registers
from ocl_inductor.templates.gemm.narrow_gemm import Operands
from ocl_inductor.templates.gemm.skinny_gemm import VERY_FEW

#: Terms from which a product pays for its panels.
_MIN_TERMS = 16


def dot_product(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product of bfloat16 to float32, or of bytes to int32."""
    a, b, out_order = problem.a, problem.b, problem.order
    m, k, n = a.size[-2], a.size[-1], b.size[-1]
    operands = OPERANDS.get((a.dtype, b.dtype))
    if operands is None:
        return Declined(f"operands of {a.dtype} and {b.dtype}, not bfloat16 or bytes")
    if not has_words(ctx.device, operands):
        return Declined("the device has no instruction for products of their words")
    words = DOT_WORDS[operands]
    if not is_static(k) or int(k) % words.terms or int(k) < _MIN_TERMS:
        return Declined(f"sums of {k} terms: not {words.terms} each and at least {_MIN_TERMS}")
    if ctx.hint(m) <= VERY_FEW or ctx.hint(n) <= LANES // 2:
        return Declined(f"{m} rows and {n} columns are too few for its tiles")
    out_batch = a.size[:-2]
    blocking = _blocking(ctx, words, out_batch, m, int(k), n)
    if blocking is None:
        return Declined(f"a panel of {k} rows does not stay in a core's cache")
    a, b = with_split_batch(a, b)
    a, a_view = realize_along(ctx, a, a.dtype, (-1,))
    b, b_view = realize_along(ctx, b, b.dtype, (-1, -2))
    params = DotGemmParams(
        m=m, n=n, k=int(k),
        batch=a.size[:-2], out_batch=out_batch, out_order=out_order,
        a_offset=a_view.offset, a_strides=a_view.stride,
        b_offset=b_view.offset, b_strides=b_view.stride,
        acc=words.acc, operands=operands, tile=blocking,
    )  # fmt: skip
    size, order = (*out_batch, m, n), (*out_order, len(out_batch) + 1)
    return ctx.template(DOT_GEMM, problem.out, size, order, [a, b], params)


def has_words(device: DeviceInfo, operands: Operands) -> bool:
    """Whether the device has the instruction for products of their words."""
    return device.bf16_dot if operands == "bfloat16" else device.int8_dot


def _blocking(
    ctx: LoweringContext, words: DotWords, batch: tuple[Size, ...], m: Size, k: int, n: Size
) -> Blocking | None:
    """The best whose panels stay in cache; None where even the narrowest's do not."""
    rows, columns, batches = ctx.hint(m), ctx.hint(n), ctx.hint(prod((1, *batch)))
    row_bytes = words.itemsize * k
    for x in candidate_blockings(
        ctx.device, words.acc, rows, columns, batches, row_bytes * columns
    ):
        if x.lanes == LANES and fits_registers(x) and panel_fits(ctx.device, x, row_bytes):
            return with_tall_items(ctx.device, x, rows, columns, batches)
    return None


def panel_fits(device: DeviceInfo, blocking: Blocking, column_bytes: int) -> bool:
    """Whether a panel of columns of so many bytes stays in a core's cache."""
    return column_bytes * blocking.nr <= product_limits(device).max_own_panel * device.caches.l2
