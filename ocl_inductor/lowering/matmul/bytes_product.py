"""Matrix products of affine functions of bytes: integers are multiplied, and scaled afterwards.

With A = (P - p) s and B = (Q - q) t, where p and s do not vary along K, nor q and t, A B is

    s t (sum P Q - p sum Q - q sum (P - p)),

whose sums are over K, of integers and exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

import torch

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import cast, const, op
from ocl_inductor.ir.index import is_static, loop_vars
from ocl_inductor.lowering.core.affine import AffineBytes, affine_bytes
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import (
    broadcast_sizes,
    cast_value,
    depends_on,
    without_broadcast,
)
from ocl_inductor.lowering.core.values import ZERO, Value, expand, reindex, reshape
from ocl_inductor.lowering.matmul.dot_product import dot_product
from ocl_inductor.lowering.matmul.narrow_product import narrow_product
from ocl_inductor.lowering.matmul.problem import Gemm

#: Terms whose sum fits into int32, each less than 2^16, and so do the parts of it.
MAX_TERMS = 1 << 14

#: An integer, or a tensor of int32 or float32 that is broadcast.
Number: TypeAlias = Value | int


def are_bytes(device: DeviceInfo, a: Value, b: Value) -> bool:
    """Whether both are affine functions of bytes, whose products the device has."""
    has_products = device.int8_dot or device.amx
    return has_products and affine_bytes(a) is not None and affine_bytes(b) is not None


def product_of_bytes(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product to float32 of operands that :func:`are_bytes`."""
    a, b = affine_bytes(problem.a), affine_bytes(problem.b)
    assert a is not None and b is not None
    k = problem.a.size[-1]
    if not is_static(k) or int(k) > MAX_TERMS:
        return Declined(f"sums of {k} terms may not fit into int32")
    if varies(a, [problem.a.ndim - 1]) or varies(b, [problem.b.ndim - 2]):
        return Declined("a scale varies along the sum")
    a, b = (replace(x, bytes=ctx.realize(x.bytes)) for x in (a, b))
    integers = Gemm(a.bytes, b.bytes, torch.int32, problem.order)
    product = product_of_integers(ctx, integers)
    if isinstance(product, Declined):
        return product
    row, column = problem.a.ndim - 1, problem.b.ndim - 2
    p, q = at_start(ctx, a.zero, [row]), at_start(ctx, b.zero, [column])
    sums = without_zeros(
        product,
        p,
        q,
        lambda: minus(_sums(ctx, a.bytes, row), times(p, int(k))),
        lambda: _sums(ctx, b.bytes, column),
    )
    return scaled(sums, at_start(ctx, a.scale, [row]), at_start(ctx, b.scale, [column]))


def product_of_integers(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product of bytes to int32."""
    by_unit = narrow_product(ctx, problem)
    return dot_product(ctx, problem) if isinstance(by_unit, Declined) else by_unit


def varies(x: AffineBytes, dims: Sequence[int]) -> bool:
    """Whether its zero or its scale does along ``dims``."""
    parts = (part for part in (x.zero, x.scale) if isinstance(part, Value))
    return any(depends_on(part, dims) for part in parts)


def _sums(ctx: LoweringContext, x: Value, dim: int) -> Value:
    """Sums of bytes along ``dim``, which stays with an extent of 1."""
    once, _ = without_broadcast(x, range(x.ndim - 2))
    sums = ctx.reduce(cast_value(once, torch.int32), [dim], "sum")
    return reshape(sums, [1 if d == dim else s for d, s in enumerate(once.size)])


def at_start(ctx: LoweringContext, x: Number, dims: Sequence[int]) -> Number:
    """``x``, which does not vary along ``dims``, with extents of 1 there; in memory, where that is
    done once."""
    if isinstance(x, int):
        return x
    size = [1 if d in dims else s for d, s in enumerate(x.size)]
    first = reindex(x, size, [ZERO if d in dims else v for d, v in enumerate(loop_vars(x.ndim))])
    stays = first.body.op != "const" and ctx.is_kept(first)
    return ctx.realize(first) if stays else first


def without_zeros(
    product: Value,
    p: Number,
    q: Number,
    shifted_sums_of_p: Callable[[], Number],
    sums_of_q: Callable[[], Value],
) -> Value:
    """``sum (P - p) (Q - q)`` of ``product``, ``sum P Q``, and of ``sum (P - p)`` and ``sum Q``.

    Zeros that are numbers are subtracted as integers; tensors, which may hold any, as float32. That
    is exact where they hold 0, as those of symmetric weights do.
    """
    result: Number = product
    if p != 0:
        result = minus(result, times(p, sums_of_q()))
    if q != 0:
        result = minus(result, times(q, shifted_sums_of_p()))
    assert isinstance(result, Value)
    return result


def times(x: Number, y: Number) -> Number:
    """Their product: float32 where one of them is, else of integers."""
    return 0 if x == 0 or y == 0 else _of("mul", x, y)


def minus(x: Number, y: Number) -> Number:
    """Their difference, likewise."""
    return x if y == 0 else _of("sub", x, y)


def _of(name: str, x: Number, y: Number) -> Number:
    if isinstance(x, int) and isinstance(y, int):
        return x * y if name == "mul" else x - y
    values = [v for v in (x, y) if isinstance(v, Value)]
    floats = any(v.dtype is torch.float32 for v in values)
    dtype = torch.float32 if floats else torch.int32
    size = broadcast_sizes([v.size for v in values])
    bodies = (
        const(v, dtype) if isinstance(v, int) else cast(expand(v, size).body, dtype) for v in (x, y)
    )
    return Value(size, dtype, op(name, *bodies))


def scaled(sums: Value, *scales: Number) -> Value:
    """As float32, times the scales."""
    result: Number = cast_value(sums, torch.float32)
    factors = [x for x in scales if x != 1]
    if factors:
        result = times(result, reduce(times, factors))
    assert isinstance(result, Value)
    return result
