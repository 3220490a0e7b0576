"""Tensors made from nothing: constants, ranges, identity matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.ir.expr import Expr, compare, index_value, op, where
from ocl_inductor.ir.index import Size, as_size, is_static, loop_var
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import decide
from ocl_inductor.lowering.core.values import Value, expand
from ocl_inductor.lowering.pointwise.copies import require_cpu
from ocl_inductor.lowering.pointwise.rows import Scalar, check_dtype, constant, convert
from ocl_inductor.operators.registry import CannotLower, register
from ocl_inductor.support.torch_versions import truncates_int64_ranges

aten = torch.ops.aten


def number_dtype(value: Scalar) -> torch.dtype:
    """The dtype a tensor made from one number gets."""
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, complex):
        raise CannotLower("complex scalar")
    if isinstance(value, int) or (isinstance(value, sympy.Basic) and value.is_integer):
        return torch.int64
    return torch.get_default_dtype()


def filled(
    ctx: LoweringContext,
    size: Sequence[Size],
    value: Scalar,
    dtype: torch.dtype,
    **options: object,
) -> Value:
    """Every element ``value``; ``options`` are the tensor options of the schema."""
    require_cpu(options.get("device"), options.get("layout"))
    check_dtype(ctx, dtype)
    return Value(tuple(as_size(s) for s in size), dtype, constant(value, dtype))


# -- from a size -------------------------------------------------------------------------------


@register(aten.full.default)
def lower_full(
    ctx: LoweringContext,
    size: Sequence[Size],
    fill_value: Scalar,
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    return filled(ctx, size, fill_value, dtype or number_dtype(fill_value), **options)


@register(aten.zeros.default, aten.empty.memory_format, aten._efficientzerotensor.default)
def lower_zeros(
    ctx: LoweringContext,
    size: Sequence[Size],
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    """What ``empty`` holds is undefined; zeros cost no memory traffic when they are fused."""
    return filled(ctx, size, 0, dtype or torch.get_default_dtype(), **options)


@register(aten.ones.default)
def lower_ones(
    ctx: LoweringContext,
    size: Sequence[Size],
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    return filled(ctx, size, 1, dtype or torch.get_default_dtype(), **options)


@register(aten.empty_strided.default, aten.empty_permuted.default)
def lower_empty_strided(
    ctx: LoweringContext,
    size: Sequence[Size],
    stride: Sequence[object],
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    return filled(ctx, size, 0, dtype or torch.get_default_dtype(), **options)


@register(aten.scalar_tensor.default)
def lower_scalar_tensor(
    ctx: LoweringContext, s: Scalar, *, dtype: torch.dtype | None = None, **options: object
) -> Value:
    # Unlike full(), the default dtype does not follow the number.
    return filled(ctx, (), s, dtype or torch.get_default_dtype(), **options)


# -- like another tensor -----------------------------------------------------------------------


@register(aten.full_like.default)
def lower_full_like(
    ctx: LoweringContext,
    x: Value,
    fill_value: Scalar,
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    return filled(ctx, x.size, fill_value, dtype or x.dtype, **options)


@register(aten.zeros_like.default, aten.empty_like.default)
def lower_zeros_like(
    ctx: LoweringContext, x: Value, *, dtype: torch.dtype | None = None, **options: object
) -> Value:
    return filled(ctx, x.size, 0, dtype or x.dtype, **options)


@register(aten.ones_like.default)
def lower_ones_like(
    ctx: LoweringContext, x: Value, *, dtype: torch.dtype | None = None, **options: object
) -> Value:
    return filled(ctx, x.size, 1, dtype or x.dtype, **options)


@register(aten.new_full.default)
def lower_new_full(
    ctx: LoweringContext,
    x: Value,
    size: Sequence[Size],
    fill_value: Scalar,
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    return filled(ctx, size, fill_value, dtype or x.dtype, **options)


@register(aten.new_zeros.default, aten.new_empty.default)
def lower_new_zeros(
    ctx: LoweringContext,
    x: Value,
    size: Sequence[Size],
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    return filled(ctx, size, 0, dtype or x.dtype, **options)


@register(aten.new_ones.default)
def lower_new_ones(
    ctx: LoweringContext,
    x: Value,
    size: Sequence[Size],
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    return filled(ctx, size, 1, dtype or x.dtype, **options)


@register(aten.new_empty_strided.default)
def lower_new_empty_strided(
    ctx: LoweringContext,
    x: Value,
    size: Sequence[Size],
    stride: Sequence[object],
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    return filled(ctx, size, 0, dtype or x.dtype, **options)


@register(aten.fill.Scalar, aten.fill.Tensor)
def lower_fill(ctx: LoweringContext, x: Value, value: object) -> Value:
    """``value`` (a number or a 0-d tensor) in the shape and dtype of ``x``."""
    check_dtype(ctx, x.dtype)
    if isinstance(value, Value):
        return Value(x.size, x.dtype, convert(expand(value, x.size).body, x.dtype))
    return filled(ctx, x.size, value, x.dtype)


@register(aten.zero.default)
def lower_zero(ctx: LoweringContext, x: Value) -> Value:
    return filled(ctx, x.size, 0, x.dtype)


# -- ranges --------------------------------------------------------------------------------------


def _is_integer(value: Scalar) -> bool:
    return isinstance(value, int) or (isinstance(value, sympy.Basic) and bool(value.is_integer))


def position(ctx: LoweringContext, dim: int, size: Size, dtype: torch.dtype) -> Expr:
    """The coordinate along ``dim`` as data, computed in 32 bits where they suffice."""
    small = is_static(size) and int(size) < 2**31
    return convert(index_value(loop_var(dim), torch.int32 if small else torch.int64), dtype)


@register(aten.arange.default)
def lower_arange_end(ctx: LoweringContext, end: Scalar, **options: object) -> Value:
    return lower_arange(ctx, 0, end, 1, **options)


@register(aten.arange.start, aten.arange.start_step)
def lower_arange(
    ctx: LoweringContext,
    start: Scalar,
    end: Scalar,
    step: Scalar = 1,
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    """``start + step * i`` below (above, for a negative step) ``end``, exclusive.

    Floats are computed in double precision and rounded once, as in eager mode. A range of int64
    is one of the arguments truncated, with some versions of PyTorch.
    """
    require_cpu(options.get("device"), options.get("layout"))
    if any(isinstance(x, complex) for x in (start, end, step)):
        raise CannotLower("complex scalar")
    integers = all(_is_integer(x) for x in (start, end, step))
    if dtype is None:
        dtype = torch.int64 if integers else torch.get_default_dtype()
    check_dtype(ctx, dtype)
    whole = all(
        _is_integer(x) or (isinstance(x, float) and x.is_integer()) for x in (start, end, step)
    )
    if dtype is torch.int64 and not integers and (whole or truncates_int64_ranges()):
        start, end, step = (_truncated(x) for x in (start, end, step))
        integers = True
    if integers and isinstance(step, sympy.Basic) and not step.is_number:
        if not decide(ctx, sympy.Gt(step, 0)):
            raise CannotLower("symbolic step below 0")
        size = as_size(FloorDiv(sympy.sympify(end) - start + step - 1, step))
        return Value((size,), dtype, convert(index_value(start + step * loop_var(0)), dtype))
    if integers:
        size = _integer_length(start, end, int(step))
        if dtype.is_floating_point and dtype is not torch.float64:
            return _exact_float_arange(ctx, start, int(step), size, dtype)
        i = position(ctx, 0, size, torch.int64 if not dtype.is_floating_point else dtype)
        return Value((size,), dtype, convert(_affine(i, start, int(step)), dtype))
    size = _float_length(ctx, start, end, step)
    if not dtype.is_floating_point:
        # The length is of the range as given, the elements are of the truncated one.
        start, step = _truncated(start), _truncated(step)
        i = position(ctx, 0, size, torch.int64)
        return Value((size,), dtype, convert(_affine(i, start, step), dtype))
    check_dtype(ctx, torch.float64)
    i = position(ctx, 0, size, torch.float64)
    return Value((size,), dtype, convert(_affine(i, start, step), dtype))


def _float_length(ctx: LoweringContext, start: Scalar, end: Scalar, step: Scalar) -> Size:
    """Elements of a range; where a bound is symbolic, as many as PyTorch's shape function says."""
    if all(isinstance(x, (int, float)) for x in (start, end, step)):
        return max(math.ceil((float(end) - float(start)) / float(step)), 0)
    fake = None if ctx.fx_node is None else ctx.fx_node.meta.get("val")
    if not isinstance(fake, torch.Tensor):
        raise CannotLower("symbolic float range")
    (length,) = fake.shape
    return as_size(length.node.expr if isinstance(length, torch.SymInt) else length)


def _truncated(value: Scalar) -> Scalar:
    """``value`` as an integer, towards zero."""
    if _is_integer(value):
        return value
    if isinstance(value, (int, float)):
        return int(value)
    raise CannotLower("symbolic float as an integer")


def _affine(i: Expr, start: Scalar, step: Scalar) -> Expr:
    if step != 1:
        i = op("mul", i, constant(step, i.dtype))
    return i if start == 0 else op("add", i, constant(start, i.dtype))


def _integer_length(start: Scalar, end: Scalar, step: int) -> Size:
    if step == 0:
        raise CannotLower("arange with step 0")
    if all(is_static(x) for x in (start, end)):
        return len(range(int(start), int(end), step))
    span = sympy.sympify(end) - sympy.sympify(start)
    if step < 0:
        span = -span
    return as_size(span if abs(step) == 1 else FloorDiv(span + abs(step) - 1, abs(step)))


def _exact_float_arange(
    ctx: LoweringContext, start: Scalar, step: int, size: Size, dtype: torch.dtype
) -> Value:
    """Integers are exact in int64; converting rounds once."""
    i = position(ctx, 0, size, torch.int64)
    return Value((size,), dtype, convert(_affine(i, start, step), dtype))


@register(aten.eye.default)
def lower_eye(ctx: LoweringContext, n: Size, **options: object) -> Value:
    return lower_eye_rectangular(ctx, n, n, **options)


@register(aten.eye.m)
def lower_eye_rectangular(
    ctx: LoweringContext,
    n: Size,
    m: Size,
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    require_cpu(options.get("device"), options.get("layout"))
    dtype = dtype or torch.get_default_dtype()
    check_dtype(ctx, dtype)
    size = (as_size(n), as_size(m))
    small = all(is_static(s) and int(s) < 2**31 for s in size)
    kind = torch.int32 if small else torch.int64
    row = position(ctx, 0, size[0], kind)
    column = position(ctx, 1, size[1], kind)
    body = where(compare("eq", row, column), constant(1, dtype), constant(0, dtype))
    return Value(size, dtype, body)


@register(aten.linspace.default)
def lower_linspace(
    ctx: LoweringContext,
    start: Scalar,
    end: Scalar,
    steps: object,
    *,
    dtype: torch.dtype | None = None,
    **options: object,
) -> Value:
    """From both ends towards the middle, so that the last element is ``end`` exactly."""
    require_cpu(options.get("device"), options.get("layout"))
    dtype = dtype or torch.get_default_dtype()
    if dtype not in (torch.float32, torch.float64) or not isinstance(steps, int):
        raise CannotLower("linspace of this dtype or a symbolic length")
    if any(isinstance(x, complex) for x in (start, end)):
        raise CannotLower("complex scalar")
    check_dtype(ctx, dtype)
    i = position(ctx, 0, steps, dtype)
    first, last = constant(start, dtype), constant(end, dtype)
    if steps <= 1:
        return Value((steps,), dtype, first)
    # Bounds are rounded to the dtype before the step is computed, as in eager mode.
    if first.op == last.op == "const":
        step = constant((last.payload - first.payload) / (steps - 1), dtype)
    else:
        step = op("div", op("sub", last, first), constant(steps - 1, dtype))
    index = position(ctx, 0, steps, torch.int64)
    from_start = op("add", first, op("mul", step, i))
    back = op("sub", constant(steps - 1, dtype), i)
    from_end = op("sub", last, op("mul", step, back))
    near = compare("lt", index, constant(steps // 2, torch.int64))
    return Value((steps,), dtype, where(near, from_start, from_end))
