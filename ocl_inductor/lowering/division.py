"""Division of integers, which eager refuses by zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from ocl_inductor.ir.expr import Expr, cast, checked_index, compare, const, op, where
from ocl_inductor.ir.index import Ranges, Size, loop_vars, same
from ocl_inductor.lowering.context import LoweringContext
from ocl_inductor.lowering.registry import CannotLower
from ocl_inductor.lowering.value_range import value_range

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

    Whether one is 0 is checked as an index into a dimension of size 1, which has the value 0.

    Raises:
        CannotLower: it certainly is 0; eager raises.
    """
    integral = not b.dtype.is_floating_point and b.dtype is not torch.bool
    if ctx is None or not integral or any(same(n, 0) for n in ranges.values()):
        return b
    least, greatest = value_range(b, ranges, ctx.nodes)
    if least == greatest == 0:
        raise CannotLower("eager refuses to divide integers by 0")
    if least > 0 or greatest < 0:
        return b
    dtype = torch.int64 if b.dtype is torch.int64 else torch.int32
    one, zero = const(1, dtype), const(0, dtype)
    place = where(compare("eq", b, const(0, b.dtype)), one, zero)
    return op("add", b, cast(checked_index(place, one, ctx.divisor_check()), b.dtype))
