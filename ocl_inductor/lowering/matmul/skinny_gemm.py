"""Products with few rows (decoding, one image's classifier, a short text): W is read in place."""

from __future__ import annotations

import sympy
import torch

from ocl_inductor.ir.index import Size, is_static, same
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, decide, is_known
from ocl_inductor.lowering.core.values import Value, strided_view
from ocl_inductor.lowering.matmul.matrix_product import partition_for_unit
from ocl_inductor.lowering.matmul.problem import Gemm
from ocl_inductor.lowering.matmul.product_limits import product_limits
from ocl_inductor.templates.blocking import lanes_of
from ocl_inductor.templates.gemm.bf16_skinny_gemm import (
    BF16_ROWS,
    VECTOR,
    Bf16SkinnyParams,
    row_count,
)
from ocl_inductor.templates.gemm.skinny_gemm import FEW_ROWS, VERY_FEW, SkinnyParams

_BYTES = (torch.int8, torch.uint8)
_READABLE = (*_BYTES, torch.float16, torch.bfloat16, torch.float32, torch.float64)
#: Rows to a work-item where their number is not known: it may become larger than its hint.
_ROWS_TO_AN_ITEM = 48


def skinny_gemm(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product by the template ``skinny_gemm``.

    It suits where m is small and B lies in memory with unit stride along k, as a layer's weight
    does. It may have a half type, or bytes that are converted first, as a quantised layer's; the
    result is ``out``, the type of the sums.
    """
    a, b, out = problem.a, problem.b, problem.out
    m, n, k = a.size[-2], b.size[-1], b.size[-2]
    acc = "double" if out is torch.float64 else "float"
    lanes = lanes_of(ctx.device, acc)
    b = _unconverted(b)
    w = strided_view(b)
    if ctx.device.profile != "vector" or lanes == 1:
        return Declined("the device's profile has no vectors")
    if w is None or not same(w.stride[-2], 1) or b.dtype not in _READABLE:
        return Declined("B does not lie in memory with unit stride along k")
    if not _worthwhile(ctx, m, n, k, lanes):
        return Declined(f"{m} rows, {n} columns and {k} terms: not few rows of a long weight")
    batch = a.size[:-2]
    very_few = ctx.hint(m) <= VERY_FEW
    if not very_few and _goes_to_unit(ctx, problem):
        return Declined("the matrix unit is faster")
    pairs = very_few and _by_pairs(ctx, a, b)
    a = cast_value(a, torch.bfloat16 if pairs else out)
    x = strided_view(a)
    if x is None or not same(x.stride[-1], 1):
        a = ctx.realize(a, range(a.ndim))
        x = strided_view(a)
        assert x is not None
    params = SkinnyParams(
        m=m, n=n, k=k, batch=batch,
        mb=int(m) if is_static(m) else _ROWS_TO_AN_ITEM,
        a_offset=x.offset, a_strides=x.stride[:-1],
        w_offset=w.offset, w_strides=(*w.stride[:-2], w.stride[-1]),
        w_itemsize=b.dtype.itemsize,
        lanes=lanes, acc=acc,
    )  # fmt: skip
    size, order = (*batch, m, n), tuple(range(len(batch) + 2))
    if not pairs:
        return ctx.template(FEW_ROWS, out, size, order, [a, b], params)
    static = Bf16SkinnyParams(
        m=int(m), n=int(n), k=int(k), batch=batch, mb=params.mb,
        a_offset=params.a_offset, a_strides=params.a_strides,
        w_offset=params.w_offset, w_strides=params.w_strides, w_itemsize=params.w_itemsize,
        lanes=lanes, acc=acc,
    )  # fmt: skip
    return ctx.template(BF16_ROWS, out, size, order, [a, b], static)


def _goes_to_unit(ctx: LoweringContext, p: Gemm) -> bool:
    m, k, n = p.a.size[-2], p.a.size[-1], p.b.size[-1]
    found = partition_for_unit(ctx, p.out, p.a.size[:-2], m, k, n)
    return not isinstance(found, Declined)


def _by_pairs(ctx: LoweringContext, a: Value, b: Value) -> bool:
    """Whether (\\*batch, m, k) and (\\*batch, k, n) go to the template of pairs of bfloat16."""
    m, k, n = a.size[-2], a.size[-1], b.size[-1]
    narrow = a.dtype is torch.bfloat16 and b.dtype is torch.bfloat16
    known = is_static(m) and is_static(k) and is_static(n)
    if not ctx.device.bf16_dot or not narrow or not known:
        return False
    return int(k) >= VECTOR and int(n) >= row_count(int(m))


def _unconverted(b: Value) -> Value:
    """``b`` as it lies in memory where it is bytes converted to floats, which rounds nothing."""
    body = b.body
    while body.op == "cast" and body.dtype.is_floating_point:
        body = body.args[0]
    return Value(b.size, body.dtype, body) if body.dtype in _BYTES else b


def _worthwhile(ctx: LoweringContext, m: Size, n: Size, k: Size, lanes: int) -> bool:
    limits = product_limits(ctx.device)
    rows, columns, depth = ctx.hint(m), ctx.hint(n), ctx.hint(k)
    if columns < lanes or rows > limits.skinny_max_rows or not (is_static(k) or is_known(ctx, k)):
        return False
    if rows <= VERY_FEW:
        long = depth >= limits.skinny_min_vectors * lanes
        worthwhile = long and depth * columns >= limits.skinny_min_weight
    else:
        worthwhile = depth >= limits.skinny_min_vectors_of_more * lanes
    # The last vector of a row is read whole.
    return worthwhile and decide(ctx, sympy.Ge(k, lanes))
