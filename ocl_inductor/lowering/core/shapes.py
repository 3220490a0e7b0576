"""Dimensions, bounds and small values that the structural lowerings share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, free_unbacked_symbols

from ocl_inductor.ir.dtypes import HALF_TYPES
from ocl_inductor.ir.expr import (
    Expr,
    cast,
    compare,
    const,
    index_value,
    indices,
    logical_and,
    relabel,
)
from ocl_inductor.ir.index import (
    Ranges,
    Size,
    as_size,
    interval,
    is_static,
    loop_vars,
    nonnegative_below,
    prod,
    same,
)
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.inlining import finish_value
from ocl_inductor.lowering.core.values import ZERO, Value, reindex
from ocl_inductor.operators.registry import CannotLower


def normalize_dim(dim: int, ndim: int) -> int:
    """A dimension counted from the front; 0-d tensors accept 0 and -1."""
    bound = max(ndim, 1)
    if not -bound <= dim < bound:
        raise IndexError(f"dimension {dim} is out of range for {ndim} dimensions")
    return dim % bound


def normalize_dims(dims: int | Sequence[int] | None, ndim: int) -> list[int]:
    """Sorted dimensions; None and an empty list mean all of them. 0-d tensors give []."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return list(range(ndim))
    given = [dims] if isinstance(dims, int) else list(dims)
    return sorted({normalize_dim(d, ndim) for d in given}) if ndim else []


def broadcast_sizes(sizes: Sequence[Sequence[Size]]) -> tuple[Size, ...]:
    """PyTorch's broadcasting. Symbolic extents that differ are equal by the graph's guards."""
    ndim = max((len(s) for s in sizes), default=0)
    result: list[Size] = [1] * ndim
    for size in sizes:
        lead = ndim - len(size)
        for d, extent in enumerate(size):
            old = result[lead + d]
            if same(extent, 1):
                continue
            if same(old, 1) or (is_static(extent) and not is_static(old)):
                result[lead + d] = as_size(extent)
            elif is_static(extent) and is_static(old) and not same(old, extent):
                raise CannotLower(f"sizes {old} and {extent} do not broadcast")
    return tuple(result)


def full(size: Sequence[Size], number: float | int | bool, dtype: torch.dtype) -> Value:
    """Every element ``number``."""
    return Value(tuple(size), dtype, const(number, dtype))


def cast_value(value: Value, dtype: torch.dtype) -> Value:
    if value.dtype == dtype:
        return value
    return Value(value.size, dtype, cast(value.body, dtype))


def from_sums(value: Value, dtype: torch.dtype) -> Value:
    """An operator's result under its dtype; half types are not rounded here, but where stored."""
    if dtype in HALF_TYPES and value.dtype is torch.float32:
        return Value(value.size, dtype, relabel(value.body, dtype))
    return cast_value(value, dtype)


def position_dtype(*extents: Size) -> torch.dtype:
    """What coordinates below the product of ``extents`` compute in.

    int32 wherever it suffices: vectors have twice the lanes, and Mesa's llvmpipe gives wrong
    answers when it compares 64-bit integers that were converted from 32-bit ones.
    """
    total = prod(extents)
    small = is_static(total) and int(total) < 1 << 30  # room for padding and sums of two
    return torch.int32 if small else torch.int64


def size_expr(size: Size, dtype: torch.dtype = torch.int64) -> Expr:
    """A size (or any index expression) as data."""
    size = as_size(size)
    if is_static(size):
        return const(int(size), dtype)
    return cast(index_value(size), dtype)


def all_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """Conjunction; None stands for a condition that always holds."""
    result: Expr | None = None
    for c in conditions:
        if c is not None:
            result = c if result is None else logical_and(result, c)
    return result


def in_bounds(e: sympy.Expr, low: Size, high: Size, ranges: Ranges) -> Expr | None:
    """The condition ``low <= e < high``, or None when the loop extents already grant it."""
    e = sympy.sympify(e)
    bounds = interval(e, ranges)
    conditions = []
    above = bounds is not None and is_static(low) and bounds[0] >= int(low)
    below = bounds is not None and is_static(high) and bounds[1] < int(high)
    if not (above and below) and low == 0 and nonnegative_below(e, high, ranges):
        return None
    near = bounds is not None and position_dtype(max(map(abs, bounds))) is torch.int32
    small = near and position_dtype(low) is position_dtype(high) is torch.int32
    dtype = torch.int32 if small else torch.int64
    if not above:
        conditions.append(compare("ge", index_value(e, dtype), size_expr(low, dtype)))
    if not below:
        conditions.append(compare("lt", index_value(e, dtype), size_expr(high, dtype)))
    return all_of(conditions)


def decide(ctx: LoweringContext, relation: sympy.Basic | bool) -> bool:
    """Truth of a relation between sizes; a symbolic one becomes a guard of the graph."""
    if relation in (True, False, sympy.true, sympy.false):
        return bool(relation)
    if ctx.shape_env is None or not is_known(ctx, relation):
        raise CannotLower(f"cannot decide {relation} between symbolic sizes")
    try:
        return bool(ctx.shape_env.evaluate_expr(relation))
    except GuardOnDataDependentSymNode as error:
        raise CannotLower(f"the data decide whether {relation}") from error


def is_known(ctx: LoweringContext, x: Size | sympy.Basic) -> bool:
    """Whether guards may tell sizes apart: not those that depend on data."""
    if ctx.shape_env is None:
        return False
    return not free_unbacked_symbols(sympy.sympify(x))


def static_sizes(sizes: Sequence[Size], what: str) -> list[int]:
    """The sizes as Python integers, or CannotLower where one of them is symbolic."""
    if not all(map(is_static, sizes)):
        raise CannotLower(f"{what} needs static sizes, got {tuple(sizes)}")
    return [int(s) for s in sizes]


def reused(ctx: LoweringContext, value: Value) -> Value:
    """``value`` in a form that may be read several times: in memory unless it costs little."""
    return finish_value(ctx, value, uses=2)


def lowest(dtype: torch.dtype) -> float | int | bool:
    """Identity of a maximum."""
    if dtype is torch.bool:
        return False
    return -float("inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> float | int | bool:
    """Identity of a minimum."""
    if dtype is torch.bool:
        return True
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def depends_on(value: Value, dims: Sequence[int]) -> bool:
    """Whether an element depends on the coordinates ``dims`` (broadcast ones do not count)."""
    variables = {loop_vars(value.ndim)[d] for d in dims if not same(value.size[d], 1)}
    return any(variables & index.free_symbols for index in indices(value.body))


def without_broadcast(value: Value, dims: Sequence[int]) -> tuple[Value, list[bool]]:
    """``value`` with extent 1 for those of ``dims`` that no element depends on; which they are."""
    free = [
        d in dims and (same(s, 1) or not depends_on(value, [d])) for d, s in enumerate(value.size)
    ]
    once = reindex(
        value,
        [1 if f else s for f, s in zip(free, value.size, strict=True)],
        [ZERO if f else v for f, v in zip(free, loop_vars(value.ndim), strict=True)],
    )
    return once, free
