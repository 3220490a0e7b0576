"""Operators that copy, convert or choose values, and the few that promote in their own way."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from ocl_inductor.ir.dtypes import HALF_TYPES
from ocl_inductor.ir.expr import Expr, where
from ocl_inductor.ir.index import loop_var
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import broadcast_sizes
from ocl_inductor.lowering.core.values import HostValue, Value, expand, reindex
from ocl_inductor.lowering.pointwise import activations
from ocl_inductor.lowering.pointwise.division import divide, divisor_of
from ocl_inductor.lowering.pointwise.formulas import div, truth
from ocl_inductor.lowering.pointwise.rows import (
    DEFAULT,
    INT_TO_FLOAT,
    NO_OPMATH,
    Scalar,
    check_dtype,
    constant,
    convert,
    elementwise,
    promote,
)
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def to_dtype(ctx: LoweringContext, x: Value, dtype: torch.dtype | None) -> Value:
    """An explicit conversion; half types round."""
    if dtype is None or dtype == x.dtype:
        return x
    check_dtype(ctx, x.dtype, dtype)
    return Value(x.size, dtype, convert(x.body, dtype))


def require_cpu(device: object = None, layout: object = None) -> None:
    """Tensors live in host memory as seen by PyTorch; anything else runs on the host."""
    if device is not None and torch.device(device).type != "cpu":
        raise CannotLower(f"device {device}")
    if layout is not None and layout is not torch.strided:
        raise CannotLower(f"layout {layout}")


@register(
    aten.alias.default,
    aten.detach.default,
    aten.detach_copy.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.positive.default,
)
def lower_identity(ctx: LoweringContext, x: Value) -> Value:
    return x


@register(aten.clone.default)
def lower_clone(ctx: LoweringContext, x: Value, *, memory_format: object = None) -> Value:
    """The same values. Strides are settled where the result is stored, not here."""
    return x


@register(aten._to_copy.default)
def lower_to_copy(
    ctx: LoweringContext,
    x: Value | Scalar,
    *,
    dtype: torch.dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: object = None,
) -> Value:
    require_cpu(device, layout)
    if isinstance(x, Value):
        return to_dtype(ctx, x, dtype)
    # vmap converts the number beside a vector of scalars, and leaves it a number.
    if dtype is None:
        raise CannotLower("copies a number")
    check_dtype(ctx, dtype)
    return Value((), dtype, constant(x, dtype))


@register(torch.ops.aten.view.dtype)
def lower_view_of_dtype(ctx: LoweringContext, x: Value, dtype: torch.dtype) -> Value:
    """The same bits under another type of the same size."""
    if dtype is x.dtype:
        return x
    check_dtype(ctx, x.dtype, dtype)
    if dtype.itemsize != x.dtype.itemsize:
        raise CannotLower(f"a view of {x.dtype} as {dtype}, which has another size")
    if HALF_TYPES & {x.dtype, dtype}:
        raise CannotLower("a register of a half type does not keep the bits of every NaN")
    if dtype is torch.bool:
        raise CannotLower("truth values of other bytes than 0 and 1")
    if x.dtype is torch.bool:
        if dtype not in (torch.int8, torch.uint8):
            raise CannotLower(f"a view of truth values as {dtype}")
        return Value(x.size, dtype, convert(x.body, dtype))
    return Value(x.size, dtype, Expr("reinterpret", (x.body,), dtype))


@register(torch.ops.prims.convert_element_type.default)
def lower_convert_element_type(ctx: LoweringContext, x: Value, dtype: torch.dtype) -> Value:
    return to_dtype(ctx, x, dtype)


@register(aten.copy.default)
def lower_copy(ctx: LoweringContext, x: Value, src: Value, non_blocking: bool = False) -> Value:
    """``src`` with the shape and dtype of ``x``."""
    if not isinstance(src, Value):
        raise CannotLower("the source only lives on the host")
    return to_dtype(ctx, expand(src, x.size), x.dtype)


@register(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def lower_where(ctx: LoweringContext, condition: Value, a: object, b: object) -> Value:
    """``a`` and ``b`` promote with each other; the condition only broadcasts."""
    _, dtype = promote([a, b], NO_OPMATH)
    tensors = [x for x in (condition, a, b) if isinstance(x, Value)]
    check_dtype(ctx, dtype, *(x.dtype for x in tensors))
    size = broadcast_sizes([x.size for x in tensors])

    def branch(x: object) -> Any:
        if isinstance(x, Value):
            return convert(expand(x, size).body, dtype)
        return constant(x, dtype)

    body = where(truth(expand(condition, size).body), branch(a), branch(b))
    return Value(size, dtype, body)


@register(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def lower_masked_fill(ctx: LoweringContext, x: Value, mask: Value, value: object) -> Value:
    """``value`` takes the dtype of ``x``."""
    if isinstance(value, HostValue):
        raise CannotLower("the value only lives on the host")
    check_dtype(ctx, x.dtype)
    size = broadcast_sizes([x.size, mask.size])
    if isinstance(value, Value):
        filler = convert(expand(value, size).body, x.dtype)
    else:
        filler = constant(value, x.dtype)
    body = where(truth(expand(mask, size).body), filler, expand(x, size).body)
    return Value(size, x.dtype, body)


@register(aten.div.Tensor_mode, aten.div.Scalar_mode)
def lower_div_mode(
    ctx: LoweringContext, a: Value, b: object, *, rounding_mode: str | None = None
) -> Value:
    if rounding_mode is None:
        return elementwise(ctx, div, [a, b], INT_TO_FLOAT)
    name = {"floor": "floor_div", "trunc": "trunc_div"}[rounding_mode]
    size = broadcast_sizes([x.size for x in (a, b) if isinstance(x, Value)])
    compute = partial(divide(name), divisor=divisor_of(ctx, size))
    return elementwise(ctx, compute, [a, b], DEFAULT)


@register(aten.prelu.default)
def lower_prelu(ctx: LoweringContext, x: Value, weight: Value) -> Value:
    """One weight, or one for each channel (dimension 1)."""
    if weight.ndim == 1 and x.ndim > 1:
        size = [weight.size[0] if d == 1 else 1 for d in range(x.ndim)]
        weight = reindex(weight, size, [loop_var(1)])
    elif weight.ndim == 1 and x.ndim == 0:
        weight = reindex(weight, (), [0])
    return elementwise(ctx, activations.prelu, [x, weight], DEFAULT)
