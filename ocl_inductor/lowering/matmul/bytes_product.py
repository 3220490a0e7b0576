"""Matrix products of affine functions of bytes: integers are multiplied, and scaled afterwards.

With A = (P - p) s and B = (Q - q) t, where p and s do not vary along K, nor q and t, A B is

    s t (sum P Q - p sum Q - q sum (P - p)),

whose sums are over K, of integers and exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import torch

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.expr import cast, const, op
from ocl_inductor.ir.index import is_static, loop_vars
from ocl_inductor.lowering.core.affine import AffineBytes, affine_bytes
from ocl_inductor.lowering.core.choose import Declined
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import cast_value, depends_on, without_broadcast
from ocl_inductor.lowering.core.values import ZERO, Value, expand, reindex, reshape
from ocl_inductor.lowering.matmul.dot_product import dot_product
from ocl_inductor.lowering.matmul.narrow_product import narrow_product
from ocl_inductor.lowering.matmul.problem import Gemm

#: Terms whose sum fits into int32, each less than 2^16.
MAX_TERMS = 1 << 15


def multiplies_bytes(device: DeviceInfo) -> bool:
    """Whether the device has instructions for products of bytes."""
    return device.int8_dot or device.amx


def product_of_bytes(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product to float32 of operands that are affine functions of bytes."""
    a, b = affine_bytes(problem.a), affine_bytes(problem.b)
    if not multiplies_bytes(ctx.device):
        return Declined("the device has no products of bytes")
    if a is None or b is None:
        return Declined("an operand is no affine function of bytes")
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
    scales = [
        at_start(ctx, x.scale, [dim])
        for x, dim in ((a, a.bytes.ndim - 1), (b, b.bytes.ndim - 2))
        if x.scale is not None
    ]
    return scaled(_without_zeros(ctx, product, a, b), *scales)


def product_of_integers(ctx: LoweringContext, problem: Gemm) -> Value | Declined:
    """The product of bytes to int32."""
    by_unit = narrow_product(ctx, problem)
    return dot_product(ctx, problem) if isinstance(by_unit, Declined) else by_unit


def varies(x: AffineBytes, dims: Sequence[int]) -> bool:
    """Whether its zero or its scale does along ``dims``."""
    return any(part is not None and depends_on(part, dims) for part in (x.zero, x.scale))


def _without_zeros(ctx: LoweringContext, product: Value, a: AffineBytes, b: AffineBytes) -> Value:
    """``sum (P - p) (Q - q)`` of ``product``, ``sum P Q``."""
    row, column = a.bytes.ndim - 1, b.bytes.ndim - 2
    if a.zero is not None:
        product = less(product, at_start(ctx, a.zero, [row]), _sums(ctx, b.bytes, column))
    if b.zero is not None:
        sums = _sums(ctx, a.bytes, row)
        if a.zero is not None:
            zeros = expand(at_start(ctx, a.zero, [row]), sums.size)
            terms = op("mul", zeros.body, const(int(a.bytes.size[-1]), torch.int32))
            sums = Value(sums.size, torch.int32, op("sub", sums.body, terms))
        product = less(product, at_start(ctx, b.zero, [column]), sums)
    return product


def _sums(ctx: LoweringContext, x: Value, dim: int) -> Value:
    """Sums of bytes along ``dim``, which stays with an extent of 1."""
    once, _ = without_broadcast(x, range(x.ndim - 2))
    sums = ctx.reduce(cast_value(once, torch.int32), [dim], "sum")
    return reshape(sums, [1 if d == dim else s for d, s in enumerate(once.size)])


def at_start(ctx: LoweringContext, x: Value, dims: Sequence[int]) -> Value:
    """``x``, which does not vary along ``dims``, with extents of 1 there; in memory, where that is
    done once."""
    size = [1 if d in dims else s for d, s in enumerate(x.size)]
    first = reindex(x, size, [ZERO if d in dims else v for d, v in enumerate(loop_vars(x.ndim))])
    stays = first.body.op != "const" and ctx.is_kept(first)
    return ctx.realize(first) if stays else first


def less(sums: Value, zeros: Value, others: Value) -> Value:
    """``sums - zeros * others``, these two expanded."""
    factors = (expand(x, sums.size).body for x in (zeros, others))
    return Value(sums.size, sums.dtype, op("sub", sums.body, op("mul", *factors)))


def scaled(sums: Value, *scales: Value) -> Value:
    """As float32, times the scales, which are expanded."""
    result = cast(sums.body, torch.float32)
    factors = [expand(x, sums.size).body for x in scales]
    if factors:
        result = op("mul", result, reduce(partial(op, "mul"), factors))
    return Value(sums.size, torch.float32, result)
