"""Values that eager looks at before it computes (:mod:`ocl_inductor.operators.require`)."""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import Expr, cast, op
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.refused_values import refused_unless
from ocl_inductor.lowering.core.values import Value, expand
from ocl_inductor.lowering.pointwise.rows import DEFAULT, elementwise
from ocl_inductor.operators.registry import register
from ocl_inductor.operators.require import REQUIRE


@register(REQUIRE)
def lower_require(ctx: LoweringContext, x: Value, holds: Value, says: str) -> Value:
    condition = cast(expand(holds, x.size).body, torch.bool)

    def compute(x: Expr) -> Expr:
        return op("add", x, refused_unless(ctx, condition, x.dtype, says))

    return elementwise(ctx, compute, (x,), DEFAULT)
