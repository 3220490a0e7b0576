"""Division of integers, which eager refuses by zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from ocl_inductor.ir.expr import Expr, compare, const, op
from ocl_inductor.ir.index import Ranges, Size, loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.refused_values import refused_unless
from ocl_inductor.lowering.core.value_range import value_range
from ocl_inductor.operators.registry import CannotLower
from ocl_inductor.plan.plan import DIVIDED_BY_ZERO

Divisor = Callable[[Expr], Expr]


def divide(name: str) -> Callable[..., Expr]:
    """The primitive of that name on two operands; ``divisor`` looks at the second one."""

    def fn(a: Expr, b: Expr, *, divisor: Divisor) -> Expr:
        return op(name, a, divisor(b))

    return fn


def divisor_of(ctx: LoweringContext | None, size: Sequence[Size]) -> Divisor:
    """What to do with the divisor of a pointwise operator with a result of this size."""
    ranges = dict(zip(loop_vars(len(size)), size, strict=True))
    return partial(_checked, ctx, ranges)


def _checked(ctx: LoweringContext | None, ranges: Ranges, b: Expr) -> Expr:
    """The divisor; the call raises if one is 0.

    Raises:
        CannotLower: it certainly is 0, or truth values are divided; eager raises.
    """
    if b.dtype is torch.bool:
        raise CannotLower("eager does not divide truth values")
    if ctx is None or b.dtype.is_floating_point or any(same(n, 0) for n in ranges.values()):
        return b
    least, greatest = value_range(b, ranges, ctx.nodes)
    if least == greatest == 0:
        raise CannotLower("eager refuses to divide integers by 0")
    if least > 0 or greatest < 0:
        return b
    divides = compare("ne", b, const(0, b.dtype))
    return op("add", b, refused_unless(ctx, divides, b.dtype, DIVIDED_BY_ZERO))
