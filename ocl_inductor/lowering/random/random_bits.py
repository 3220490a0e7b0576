"""Random numbers in kernels (:mod:`ocl_inductor.operators.random_numbers`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import sympy
import torch

from ocl_inductor.ir.expr import Expr, cast, const, index_value, op
from ocl_inductor.ir.index import (
    Size,
    as_size,
    contiguous_strides,
    is_static,
    linear,
    loop_vars,
    prod,
)
from ocl_inductor.ir.nodes import Extern, dense_buffer
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value, buffer_value
from ocl_inductor.lowering.pointwise.rows import check_dtype, constant, from_compute
from ocl_inductor.operators.random_numbers import (
    DRAW_SEED,
    FIRST_STREAM,
    RANDOM,
    RANDOM_INTEGERS,
    UNIFORM_BITS,
)
from ocl_inductor.operators.registry import CannotLower, register


@register(DRAW_SEED)
def lower_draw_seed(ctx: LoweringContext, place: str) -> Value:
    """A host call, before any kernel: the plan holds the call, never its result."""
    buffer = dense_buffer(f"host{len(ctx.nodes)}", torch.int64, ())
    bounds = (-(2**63), 2**63 - 1, ())
    ctx.add(
        Extern(
            torch.ops.aten.randint.low, bounds, (), buffer.name, (buffer,), (), "",
            origin=ctx.origin,
        )
    )  # fmt: skip
    return buffer_value(buffer)


@register(RANDOM)
def lower_random(
    ctx: LoweringContext,
    seed: Value,
    stream: int,
    size: Sequence[Size],
    kind: str,
    dtype: torch.dtype,
) -> Value:
    """Numbers of one of ``KINDS``, computed in float64 for that dtype and in float32 for others."""
    check_dtype(ctx, dtype)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    source = _Bits(seed, stream, size)
    if kind == "uniform":
        body = source.fraction(UNIFORM_BITS[dtype], wide)
    elif kind == "open":
        body = source.fraction(UNIFORM_BITS[wide] - 1, wide, 0.5)
    else:
        body = _normal(source, wide)
    return Value(source.size, dtype, from_compute(body, dtype))


@register(RANDOM_INTEGERS)
def lower_random_integers(
    ctx: LoweringContext,
    seed: Value,
    stream: int,
    size: Sequence[Size],
    low: object,
    high: object,
) -> Value:
    """Integers in ``[low, high)``: the upper half of random bits times the number of integers.

    Of 64 bits, so that the bias is at most ``(high - low) / 2**64``.
    """
    source = _Bits(seed, stream, size)
    span = sympy.sympify(high) - sympy.sympify(low)
    bits = source.bits64(source.position(1))
    if span.is_Integer and 0 < span <= 2**31:
        scaled = _scaled(bits, int(span))
    else:
        scaled = op("mul_hi", bits, constant(as_size(span), torch.int64))
    return Value(source.size, torch.int64, op("add", scaled, constant(low, torch.int64)))


def _scaled(bits: Expr, span: int) -> Expr:
    """``mul_hi(bits, span)`` in two products of 64 bits, which vectors have instructions for."""
    factor = const(span, torch.int64)

    def lower_half(e: Expr) -> Expr:
        return op("bitwise_and", e, const(2**32 - 1, torch.int64))

    def upper_half(e: Expr) -> Expr:
        return op("right_shift", e, const(32, torch.int64))

    low = op("mul", lower_half(bits), factor)
    high = op("mul", lower_half(upper_half(bits)), factor)
    return upper_half(op("add", high, upper_half(low)))


def _normal(source: _Bits, dtype: torch.dtype) -> Expr:
    """Box and Muller, "A note on the generation of random normal deviates", 1958.

    The radius takes the logarithm of a number in (0, 1] with more bits than the result, so that
    the tails reach 6.7 standard deviations (9.4 for float64) and nothing is infinite.
    """
    if dtype is torch.float64:
        radius_bits, angle_bits = 63, 53
        radius = source.bits64(source.position(2))
        angle = source.bits64(source.position(2, 1))
    else:
        radius_bits, angle_bits = 31, 24
        both = source.bits64(source.position(1))
        radius = cast(both, torch.int32)
        angle = cast(op("right_shift", both, const(32, torch.int64)), torch.int32)
    u = _fraction(radius, radius_bits, dtype)
    u = op("add", u, const(2.0 ** -(radius_bits + 1), dtype))
    turn = op("mul", _fraction(angle, angle_bits, dtype), const(2 * math.pi, dtype))
    length = op("sqrt", op("mul", op("log", u), const(-2.0, dtype)))
    return op("mul", length, op("cos", turn))


def _fraction(bits: Expr, count: int, dtype: torch.dtype) -> Expr:
    """The lower ``count`` bits as a multiple of ``2**-count``."""
    kept = op("bitwise_and", bits, const((1 << count) - 1, bits.dtype))
    return op("mul", cast(kept, dtype), const(2.0**-count, dtype))


class _Bits:
    """Random bits of each element of a tensor, by its number in row-major order."""

    def __init__(self, seed: Value, stream: int, size: Sequence[object]) -> None:
        if seed.ndim or seed.dtype is not torch.int64:
            raise CannotLower("the seed is not one int64")
        self.size = tuple(as_size(s) for s in size)
        self.seed = seed.body
        self.stream = index_value(FIRST_STREAM + stream, torch.int32)

    def position(self, factor: int, offset: int = 0) -> Expr:
        number = linear(loop_vars(len(self.size)), contiguous_strides(self.size))
        count = prod(self.size)
        small = is_static(count) and factor * int(count) < 2**31
        index = sympy.expand(number * factor + offset)
        return index_value(index, torch.int32 if small else torch.int64)

    def bits32(self, position: Expr) -> Expr:
        return op("random32", position, self.seed, self.stream, dtype=torch.int32)

    def bits64(self, position: Expr) -> Expr:
        return op("random64", position, self.seed, self.stream, dtype=torch.int64)

    def fraction(self, count: int, dtype: torch.dtype, offset: float = 0.0) -> Expr:
        """Multiples of ``2**-count``, moved by ``offset`` of their distance."""
        position = self.position(1)
        bits = self.bits32(position) if count < 32 else self.bits64(position)
        if not offset:
            return _fraction(bits, count, dtype)
        kept = op("bitwise_and", bits, const((1 << count) - 1, bits.dtype))
        moved = op("add", cast(kept, dtype), const(offset, dtype))
        return op("mul", moved, const(2.0**-count, dtype))
