"""``require(x, holds, says)``: values that eager looks at before it computes.

It is ``x``, and a RuntimeError that says ``says`` where an element of ``holds``, whose shape
broadcasts to that of ``x``, is false. Passes and decompositions put it where eager checks.
"""

from __future__ import annotations

import torch

from ocl_inductor.ir.expr import Expr, cast, op
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.library import LIBRARY, ops
from ocl_inductor.lowering.core.refused_values import refused_unless
from ocl_inductor.lowering.core.registry import register
from ocl_inductor.lowering.core.values import Value, expand
from ocl_inductor.lowering.pointwise.rows import DEFAULT, elementwise

LIBRARY.define(
    "require(Tensor x, Tensor holds, str says) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,)
)


@torch.library.impl(LIBRARY, "require", "CompositeExplicitAutograd")
def require_on_host(x: torch.Tensor, holds: torch.Tensor, says: str) -> torch.Tensor:
    if not bool(holds.all()):
        raise RuntimeError(says)
    return x.clone()


@torch.library.register_fake("ocl_inductor::require", lib=LIBRARY)
def _require_fake(x: torch.Tensor, holds: torch.Tensor, says: str) -> torch.Tensor:
    return torch.empty_like(x)


def _backward(ctx: object, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
    return grad, None, None


torch.library.register_autograd("ocl_inductor::require", _backward, lib=LIBRARY)


@register(ops.require.default)
def lower_require(ctx: LoweringContext, x: Value, holds: Value, says: str) -> Value:
    condition = cast(expand(holds, x.size).body, torch.bool)

    def compute(x: Expr) -> Expr:
        return op("add", x, refused_unless(ctx, condition, x.dtype, says))

    return elementwise(ctx, compute, (x,), DEFAULT)
