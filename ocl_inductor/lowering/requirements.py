"""``require(x, of, low, high, ends, says)``: values that eager looks at before it computes.

It is ``x``, and a RuntimeError that says ``says`` where one of ``of``, whose shape broadcasts to
that of ``x``, does not lie in the interval from ``low`` to ``high``. ``ends`` is ``"[]"`` if both
belong to it, ``"()"`` if neither does; NaN lies in no interval. Passes and decompositions put it
where eager checks.
"""

from __future__ import annotations

import operator

import torch

from ocl_inductor.ir.expr import Expr, compare, const, logical_and, op
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.pointwise import DEFAULT, elementwise
from ocl_inductor.lowering.random_bits import LIBRARY, ops
from ocl_inductor.lowering.refused_values import refused_unless
from ocl_inductor.lowering.registry import register
from ocl_inductor.lowering.values import Value

#: By the character that ends an interval: what a number has to be to its bound.
_COMPARISONS = {"[": "ge", "(": "gt", "]": "le", ")": "lt"}

LIBRARY.define("require(Tensor x, Tensor of, float low, float high, str ends, str says) -> Tensor")


@torch.library.impl(LIBRARY, "require", "CompositeExplicitAutograd")
def require_on_host(
    x: torch.Tensor, of: torch.Tensor, low: float, high: float, ends: str, says: str
) -> torch.Tensor:
    inside = True
    for end, bound in zip(ends, (low, high), strict=True):
        inside = inside and bool(getattr(operator, _COMPARISONS[end])(of, bound).all())
    if not inside:
        raise RuntimeError(says)
    return x.clone()


@torch.library.register_fake("ocl_inductor::require", lib=LIBRARY)
def _require_fake(
    x: torch.Tensor, of: torch.Tensor, low: float, high: float, ends: str, says: str
) -> torch.Tensor:
    return torch.empty_like(x)


@register(ops.require.default)
def lower_require(
    ctx: LoweringContext, x: Value, of: Value, low: float, high: float, ends: str, says: str
) -> Value:
    def compute(x: Expr, of: Expr) -> Expr:
        first, second = (
            compare(_COMPARISONS[end], of, const(bound, of.dtype))
            for end, bound in zip(ends, (low, high), strict=True)
        )
        return op("add", x, refused_unless(ctx, logical_and(first, second), x.dtype, says))

    return elementwise(ctx, compute, (x, of), DEFAULT)
