"""frexp: a number's mantissa and exponent, two results of different dtypes."""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import Expr, relabel
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pointwise.rows import check_dtype, rounded
from ocl_inductor.operators.registry import CannotLower, register


@register(torch.ops.aten.frexp.Tensor)
def lower_frexp(ctx: LoweringContext, x: Value) -> tuple[Value, Value]:
    """``x = mantissa * 2**exponent`` with a mantissa in [1/2, 1), and int32 exponents."""
    if not x.dtype.is_floating_point:
        raise CannotLower(f"frexp of {x.dtype}")
    check_dtype(ctx, x.dtype)
    e = rounded(x.body)
    if e.dtype is not torch.float64:
        e = relabel(e, torch.float32)
    mantissa = Expr("frexp_mantissa", (e,), e.dtype)
    if x.dtype is not torch.float64:
        mantissa = relabel(mantissa, x.dtype)
    exponent = Expr("frexp_exponent", (e,), torch.int32)
    return Value(x.size, x.dtype, mantissa), Value(x.size, torch.int32, exponent)
