"""Products with int8 operands, as quantised layers have them."""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import op
from ocl_inductor.ir.index import is_static, same
from ocl_inductor.lowering.core.choose import Declined, Implementation, choose
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, full
from ocl_inductor.lowering.core.values import Value, expand, transposed
from ocl_inductor.lowering.matmul.dot_product import dot_product
from ocl_inductor.lowering.matmul.matmul import binary, matmul
from ocl_inductor.lowering.matmul.narrow_product import narrow_product
from ocl_inductor.lowering.matmul.problem import Gemm
from ocl_inductor.lowering.views.views import slice_view
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten

#: Rows of a product of bytes that float32 sums up exactly, whatever the order: 2^24 is the first
#: integer whose successor is none. Products of int8 are at most 2^14, with uint8 less than 2^15.
_EXACT_ROWS = {torch.int8: 1 << 10, torch.uint8: 1 << 9}
#: Products in float32 added up in int32; more of them would cost more than they gain.
_MAX_PARTS = 32


@register(aten._int_mm.default)
def lower_int_mm(ctx: LoweringContext, a: Value, b: Value) -> Value:
    """(m, k) x (k, n) of bytes to int32, exact."""
    if a.dtype not in _EXACT_ROWS or b.dtype is not torch.int8:
        raise CannotLower(f"integer product of {a.dtype} and {b.dtype}")
    if any(same(s, 0) for s in (*a.size, b.size[-1])):
        return full((a.size[0], b.size[1]), 0, torch.int32)
    return choose(ctx, "integer product", Gemm(a, b, torch.int32, (0,)), _PRODUCTS)


def _in_pieces(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """By the kernel for float32, in pieces of k that are short enough to be exact there."""
    a, b = problem.a, problem.b
    rows = _EXACT_ROWS[a.dtype]
    k = a.size[-1]
    if not is_static(k) or int(k) > rows * _MAX_PARTS:
        return Declined(f"sums of {k} terms take more than {_MAX_PARTS} pieces")
    total: Value | None = None
    for first in range(0, max(int(k), 1), rows):
        last = min(first + rows, int(k))
        left, right = (
            cast_value(slice_view(x, dim, first, last, 1), torch.float32)
            for x, dim in ((a, 1), (b, 0))
        )
        part = cast_value(matmul(ctx, left, right), torch.int32)
        total = part if total is None else binary("add", total, part)
    assert total is not None
    return total


def _by_reduction(ctx: LoweringContext, problem: Gemm) -> Value:
    a, b = (cast_value(x, torch.int32) for x in (problem.a, problem.b))
    return matmul(ctx, a, b)


#: In the order in which they are tried.
_PRODUCTS: tuple[Implementation[Gemm, Value], ...] = (
    Implementation("narrow_gemm", narrow_product),
    Implementation("dot_gemm", dot_product),
    Implementation("pieces in float32", _in_pieces),
    Implementation("a reduction", _by_reduction),
)


@register(aten._weight_int8pack_mm.default)
def lower_weight_int8pack_mm(ctx: LoweringContext, x: Value, w: Value, scales: Value) -> Value:
    """(m, k) x (n, k) of int8, transposed, times a scale for each column: sums in float32."""
    if not x.dtype.is_floating_point or w.dtype is not torch.int8 or scales.dtype != x.dtype:
        raise CannotLower(f"product of {x.dtype} and {w.dtype} with scales of {scales.dtype}")
    product = matmul(ctx, x, cast_value(transposed(w), x.dtype))
    factors = expand(cast_value(scales, product.dtype), product.size)
    result = Value(product.size, product.dtype, op("mul", product.body, factors.body))
    return cast_value(result, x.dtype)
