"""``aten._scaled_mm``: a product of matrices of 8-bit floats, each with scales."""

from __future__ import annotations

import torch

from ocl_inductor.ir.dtypes import FLOAT8
from ocl_inductor.ir.index import Size, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, reshape
from ocl_inductor.lowering.matmul.matmul import binary, matmul
from ocl_inductor.lowering.pointwise.copies import to_dtype
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


@register(aten._scaled_mm.default)
def lower_scaled_mm(
    ctx: LoweringContext,
    a: Value,
    b: Value,
    scale_a: Value,
    scale_b: Value,
    bias: Value | None = None,
    scale_result: Value | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Value:
    """(m, k) x (k, n) to (m, n) in ``out_dtype``, by default that of ``a``; computed in float32.

    Scales are float32, of one element each, or (m, 1) for ``a`` and (1, n) for ``b``.
    """
    if a.dtype not in FLOAT8 or b.dtype not in FLOAT8:
        raise CannotLower(f"scaled product of {a.dtype} and {b.dtype}")
    if scale_result is not None:
        raise CannotLower("whether a scale of the result counts differs between processors")
    (m, _), (_, n) = a.size, b.size
    result = matmul(ctx, to_dtype(ctx, a, torch.float32), to_dtype(ctx, b, torch.float32))
    for scale, size in ((scale_a, (m, 1)), (scale_b, (1, n))):
        result = binary("mul", result, _scale(scale, size))
    if bias is not None:
        result = binary("add", result, to_dtype(ctx, bias, torch.float32))
    return to_dtype(ctx, result, out_dtype or a.dtype)


def _scale(scale: Value, size: tuple[Size, Size]) -> Value:
    """A scale as a tensor of two dimensions that broadcasts.

    Raises:
        CannotLower: it has neither one element nor this size.
    """
    if scale.dtype is not torch.float32:
        raise CannotLower(f"scales of {scale.dtype}")
    if all(same(n, 1) for n in scale.size):
        return reshape(scale, (1, 1))
    if len(scale.size) == len(size) and all(map(same, scale.size, size)):
        return scale
    raise CannotLower(f"scales of shape {list(scale.size)}")
