"""The few operators that eager has for floats of 8 bits: computed in float32, rounded once.

Products of matrices with scales are ``aten._scaled_mm`` (matmul/scaled_mm.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ocl_inductor.ir.dtypes import FLOAT8
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pointwise.copies import to_dtype
from ocl_inductor.lowering.pointwise.rows import round_to
from ocl_inductor.operators.registry import Lowering

aten = torch.ops.aten

#: Whose operands all have one dtype.
_OF_ONE_DTYPE = frozenset(
    {
        aten.abs.default,
        aten.addmm.default,
        aten.all.default,
        aten.all.dim,
        aten.all.dims,
        aten.any.default,
        aten.any.dim,
        aten.any.dims,
        aten.eq.Scalar,
        aten.eq.Tensor,
        aten.isnan.default,
        aten.mm.default,
        aten.mul.Tensor,
        aten.ne.Scalar,
        aten.ne.Tensor,
    }
)
#: Of the only one whose infinities eager knows.
_OF_E5M2 = frozenset({aten.isinf.default})
#: In another dtype, which the call names.
_WITH_DTYPE = frozenset(
    {
        aten.cumprod.default,
        aten.cumsum.default,
        aten.mean.default,
        aten.mean.dim,
        aten.nansum.default,
        aten.prod.default,
        aten.prod.dim_int,
        aten.sum.default,
        aten.sum.dim_IntList,
    }
)
#: Whose numbers are rounded to the dtype of the tensor first, as eager's comparisons do.
_COMPARES = frozenset({aten.eq.Scalar, aten.ne.Scalar})


def computed_in_float32(
    target: object, operands: Sequence[torch.dtype], results: Sequence[torch.dtype]
) -> bool:
    """Whether this is one of them, for operands and results of these dtypes."""
    found = {*operands, *results}
    if not found & FLOAT8.keys():
        return False
    if target in _WITH_DTYPE:
        return not FLOAT8.keys() & {*results}
    # ``x * 2`` is a product of tensors for ATen, and refused.
    one = len({*operands}) == 1 and not (target is aten.mul.Tensor and len(operands) < 2)
    return one and (
        target in _OF_ONE_DTYPE or (target in _OF_E5M2 and operands[0] is torch.float8_e5m2)
    )


def in_float32(lowering: Lowering, target: object) -> Lowering:
    """The lowering of one of these operators, which knows float32 only, for floats of 8 bits."""

    def run(ctx: LoweringContext, *args: object, **kwargs: object) -> Any:
        given = {x.dtype for x in tree_leaves((args, kwargs)) if isinstance(x, Value)}
        (dtype,) = given & FLOAT8.keys()

        def wide(x: Any) -> Any:
            if isinstance(x, Value):
                return to_dtype(ctx, x, torch.float32)
            rounds = target in _COMPARES and isinstance(x, (int, float))
            return round_to(float(x), dtype) if rounds else x

        result = lowering(ctx, *tree_map(wide, args), **tree_map(wide, kwargs))
        floats = target in _OF_ONE_DTYPE and result.dtype is torch.float32
        return to_dtype(ctx, result, dtype) if floats else result

    return run
