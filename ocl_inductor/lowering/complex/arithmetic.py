"""Pointwise operators on complex tensors: formulas of the two parts.

Infinities and NaN come out as in eager where that is well-defined: a real operand of a product or a
quotient has an imaginary part of 0, which takes part.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from ocl_inductor.ir.expr import Expr, compare, const, op, where
from ocl_inductor.ir.index import Size
from ocl_inductor.lowering.complex.pairs import (
    as_parts,
    conjugate,
    from_pairs,
    negated,
    pairs_in_memory,
)
from ocl_inductor.lowering.complex.rules import complex_rule, enter, real, result_dtype
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.registry import CannotLower
from ocl_inductor.lowering.core.shapes import broadcast_sizes, cast_value
from ocl_inductor.lowering.core.values import ComplexValue, Value, expand
from ocl_inductor.lowering.pointwise.rows import _stand_in, overloads

aten = torch.ops.aten

#: The parts of one element.
Pair = tuple[Expr, Expr]


# -- formulas ------------------------------------------------------------------------------


def add(a: Pair, b: Pair) -> Pair:
    return op("add", a[0], b[0]), op("add", a[1], b[1])


def sub(a: Pair, b: Pair) -> Pair:
    return op("sub", a[0], b[0]), op("sub", a[1], b[1])


def mul(a: Pair, b: Pair) -> Pair:
    (p, q), (r, s) = a, b
    return (
        op("sub", op("mul", p, r), op("mul", q, s)),
        op("add", op("mul", p, s), op("mul", q, r)),
    )


def neg(a: Pair) -> Pair:
    return op("neg", a[0]), op("neg", a[1])


def div(a: Pair, b: Pair) -> Pair:
    """The quotient by the larger part of the divisor (R. L. Smith, 1962), which overflows only
    where the quotient does; division by 0 divides each part by 0."""
    (p, q), (r, s) = a, b
    first = compare("ge", op("abs", r), op("abs", s))
    large, small = where(first, r, s), where(first, s, r)
    ratio = op("div", small, large)
    scale = op("reciprocal", op("add", large, op("mul", small, ratio)))
    x, y = where(first, p, q), where(first, q, p)
    re = op("mul", op("add", x, op("mul", y, ratio)), scale)
    im = op("mul", op("sub", y, op("mul", x, ratio)), scale)
    im = where(first, im, op("neg", im))
    zero = compare("eq", op("abs", large), const(0, r.dtype))
    bottom = op("abs", large)
    return where(zero, op("div", p, bottom), re), where(zero, op("div", q, bottom), im)


def scaled(a: Pair, number: float) -> Pair:
    factor = const(number, a[0].dtype)
    return op("mul", a[0], factor), op("mul", a[1], factor)


def one(a: Pair) -> Pair:
    return const(1, a[0].dtype), const(0, a[0].dtype)


def reciprocal(a: Pair) -> Pair:
    return div(one(a), a)


def magnitude(a: Pair) -> Expr:
    return op("hypot", a[0], a[1])


def angle(a: Pair) -> Expr:
    return op("atan2", a[1], a[0])


def polar(radius: Expr, phase: Expr) -> Pair:
    return op("mul", radius, op("cos", phase)), op("mul", radius, op("sin", phase))


def exp(a: Pair) -> Pair:
    re, im = polar(op("exp", a[0]), a[1])
    # A real number has a real exponential, however large: not infinity times sin(0).
    return re, where(compare("eq", a[1], const(0, a[1].dtype)), a[1], im)


def log(a: Pair) -> Pair:
    return op("log", magnitude(a)), angle(a)


def expm1(a: Pair) -> Pair:
    """``(e^x - 1) cos(y) - 2 sin(y/2)^2`` for the real part: nothing cancels near 0."""
    re, im = a
    half = op("sin", op("mul", im, const(0.5, im.dtype)))
    less = op("mul", const(2, im.dtype), op("mul", half, half))
    return op("sub", op("mul", op("expm1", re), op("cos", im)), less), exp(a)[1]


def log1p(a: Pair) -> Pair:
    re, im = a
    unit, two = const(1, re.dtype), const(2, re.dtype)
    squares = op("add", op("mul", re, op("add", re, two)), op("mul", im, im))
    size = op("mul", const(0.5, re.dtype), op("log1p", squares))
    return size, op("atan2", im, op("add", re, unit))


def lerp(a: Pair, b: Pair, weight: Pair) -> Pair:
    return add(a, mul(weight, sub(b, a)))


def sqrt(a: Pair) -> Pair:
    """The principal root: the larger part without cancellation, the other one from it."""
    re, im = a
    half, zero = const(0.5, re.dtype), const(0, re.dtype)
    size = op("mul", magnitude(a), half)
    root = op("sqrt", op("add", size, op("mul", op("abs", re), half)))
    other = op("div", op("mul", op("abs", im), half), root)
    other = where(compare("eq", root, zero), zero, other)
    right = compare("ge", re, zero)
    infinite = op("isinf", im)
    x = where(infinite, op("abs", im), where(right, root, other))
    y = where(infinite, op("abs", im), where(right, other, root))
    return x, op("copysign", y, im)


def sgn(a: Pair) -> Pair:
    size = magnitude(a)
    zero = compare("eq", size, const(0, size.dtype))
    re, im = (where(zero, const(0, x.dtype), op("div", x, size)) for x in a)
    return re, im


def _products(a: Pair) -> tuple[Expr, ...]:
    return tuple(op(name, x) for x, name in ((a[0], "sinh"), (a[0], "cosh"))) + tuple(
        op(name, a[1]) for name in ("sin", "cos")
    )


def sinh(a: Pair) -> Pair:
    sh, ch, s, c = _products(a)
    return op("mul", sh, c), op("mul", ch, s)


def cosh(a: Pair) -> Pair:
    sh, ch, s, c = _products(a)
    return op("mul", ch, c), op("mul", sh, s)


def sin(a: Pair) -> Pair:
    """``-i sinh(i z)``."""
    re, im = sinh((op("neg", a[1]), a[0]))
    return im, op("neg", re)


def cos(a: Pair) -> Pair:
    return cosh((op("neg", a[1]), a[0]))


def tanh(a: Pair) -> Pair:
    """``(t + i u) / (1 + i t u)`` of the parts' own tanh ``t`` and tan ``u``: nothing overflows."""
    t, u = op("tanh", a[0]), op("tan", a[1])
    unit = const(1, t.dtype)
    squares = op("mul", t, t), op("mul", u, u)
    bottom = op("add", unit, op("mul", *squares))
    re = op("div", op("mul", t, op("add", unit, squares[1])), bottom)
    # 1 - tanh^2 = 1 / cosh^2
    ch = op("cosh", a[0])
    im = op("div", op("div", u, op("mul", ch, ch)), bottom)
    return re, im


def sigmoid(a: Pair) -> Pair:
    return reciprocal(add(one(a), exp(neg(a))))


def silu(a: Pair) -> Pair:
    return mul(a, sigmoid(a))


def conj(a: Pair) -> Pair:
    return a[0], op("neg", a[1])


def sigmoid_backward(gradient: Pair, y: Pair) -> Pair:
    return mul(gradient, conj(mul(sub(one(y), y), y)))


def tanh_backward(gradient: Pair, y: Pair) -> Pair:
    return mul(gradient, conj(sub(one(y), mul(y, y))))


def square(a: Pair) -> Pair:
    return mul(a, a)


def rsqrt(a: Pair) -> Pair:
    return reciprocal(sqrt(a))


def is_zero(a: Pair) -> Expr:
    zero = const(0, a[0].dtype)
    return op("logical_and", compare("eq", a[0], zero), compare("eq", a[1], zero))


def equal(a: Pair, b: Pair) -> Expr:
    return op("logical_and", compare("eq", a[0], b[0]), compare("eq", a[1], b[1]))


def _negated(test: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda *operands: op("logical_not", test(*operands))


def _either(name: str) -> Callable[[Pair], Expr]:
    return lambda a: op("logical_or", op(name, a[0]), op(name, a[1]))


# -- how a formula becomes a rule ------------------------------------------------------------


def common_part(operands: Sequence[Any]) -> torch.dtype:
    """The real dtype of the parts in which complex operands and others are computed together."""
    stand_ins: list[Any] = []
    for x in operands:
        if isinstance(x, (Value, ComplexValue)):
            stand_ins.append(_stand_in(x.dtype, x.ndim > 0))
        elif isinstance(x, (bool, int, float, complex)):
            stand_ins.append(x)
        else:
            raise CannotLower(f"operand of type {type(x).__name__}")
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    dtype = elementwise_dtypes(*stand_ins, type_promotion_kind=kind)[1]
    if dtype not in (torch.complex64, torch.complex128):
        raise CannotLower(f"dtype {dtype}")
    return dtype.to_real()


def _operands(operands: Sequence[Any]) -> tuple[tuple[Size, ...], list[Pair]]:
    """Tensors and Python numbers broadcast in a common dtype: the size, and the parts of each."""
    dtype = common_part(operands)
    parts = [as_parts(x, dtype) for x in operands]
    size = broadcast_sizes([x.size for x in parts])
    return size, [(expand(x.re, size).body, expand(x.im, size).body) for x in parts]


def pointwise(formula: Callable[..., Pair], *operands: Any) -> ComplexValue:
    """A complex ``formula`` over operands (tensors and Python numbers)."""
    size, pairs = _operands(operands)
    re, im = formula(*pairs)
    return ComplexValue(Value(size, re.dtype, re), Value(size, im.dtype, im))


def measured(formula: Callable[..., Expr], *operands: Any) -> Value:
    """The same for a formula that gives a real number or a truth value."""
    size, pairs = _operands(operands)
    body = formula(*pairs)
    return Value(size, body.dtype, body)


#: Operators of one or two operands that give complex numbers.
_COMPLEX: dict[str, Callable[..., Pair]] = {
    "cos": cos,
    "cosh": cosh,
    "div.Tensor div.Scalar true_divide.Tensor true_divide.Scalar": div,
    "exp": exp,
    "exp2": lambda a: exp(scaled(a, math.log(2))),
    "expm1": expm1,
    "lerp.Scalar lerp.Tensor": lerp,
    "log": log,
    "log10": lambda a: scaled(log(a), 1 / math.log(10)),
    "log2": lambda a: scaled(log(a), 1 / math.log(2)),
    "log1p": log1p,
    "mul.Tensor mul.Scalar": mul,
    "neg": neg,
    "reciprocal": reciprocal,
    "rsqrt": rsqrt,
    "sgn": sgn,
    "sigmoid": sigmoid,
    "sigmoid_backward": sigmoid_backward,
    "silu": silu,
    "sin": sin,
    "sinh": sinh,
    "sqrt": sqrt,
    "square": square,
    "tanh": tanh,
    "tanh_backward": tanh_backward,
}

#: Those that give real numbers or truth values.
_REAL: dict[str, Callable[..., Expr]] = {
    "abs": magnitude,
    "angle": angle,
    "eq.Tensor eq.Scalar": equal,
    "isinf": _either("isinf"),
    "isnan": _either("isnan"),
    "logical_not": is_zero,
    "ne.Tensor ne.Scalar": _negated(equal),
}


def _enter(names: str, rule: Callable[..., ComplexValue | Value]) -> None:
    for target in overloads(names):
        enter(target, lambda ctx, *operands: rule(*operands))


for _name, _formula in _COMPLEX.items():
    _enter(_name, functools.partial(pointwise, _formula))
for _name, _test in _REAL.items():
    _enter(_name, functools.partial(measured, _test))


# -- operators with arguments of their own ---------------------------------------------------


@complex_rule("add.Tensor add.Scalar")
def add_scaled(ctx: LoweringContext, a: Any, b: Any, alpha: Any = 1) -> ComplexValue:
    return _sum(a, b, alpha)


@complex_rule("sub.Tensor sub.Scalar")
def sub_scaled(ctx: LoweringContext, a: Any, b: Any, alpha: Any = 1) -> ComplexValue:
    if alpha == 1:
        return pointwise(sub, a, b)
    return _sum(a, b, -alpha)


@complex_rule("rsub.Tensor rsub.Scalar")
def rsub(ctx: LoweringContext, a: Any, b: Any, alpha: Any = 1) -> ComplexValue:
    if alpha == 1:
        return pointwise(sub, b, a)
    return _sum(b, a, -alpha)


def _sum(a: Any, b: Any, alpha: Any) -> ComplexValue:
    if isinstance(alpha, sympy.Basic):
        raise CannotLower("a symbolic factor")
    if alpha == 1:
        return pointwise(add, a, b)
    return pointwise(lambda x, y, z: add(x, mul(y, z)), a, b, alpha)


@complex_rule("addcmul")
def addcmul(ctx: LoweringContext, a: Any, b: Any, c: Any, *, value: Any = 1) -> ComplexValue:
    if value == 1:
        return pointwise(lambda x, y, z: add(x, mul(y, z)), a, b, c)
    return pointwise(lambda x, y, z, w: add(x, mul(mul(w, y), z)), a, b, c, value)


@complex_rule("addcdiv")
def addcdiv(ctx: LoweringContext, a: Any, b: Any, c: Any, *, value: Any = 1) -> ComplexValue:
    return pointwise(lambda x, y, z, w: add(x, mul(w, div(y, z))), a, b, c, value)


#: Powers that eager computes as products, too.
_POWERS: dict[float, Callable[[Pair], Pair]] = {
    0.5: sqrt,
    1: lambda a: a,
    2: square,
    3: lambda a: mul(square(a), a),
    -1: reciprocal,
    -2: lambda a: reciprocal(square(a)),
}


@complex_rule("pow.Tensor_Scalar")
def power(ctx: LoweringContext, a: ComplexValue, exponent: Any) -> ComplexValue:
    if isinstance(exponent, complex) and exponent.imag == 0:
        exponent = exponent.real
    formula = _POWERS.get(exponent) if isinstance(exponent, (int, float)) else None
    if formula is None:
        raise CannotLower(f"a complex number to the power of {exponent}")
    return pointwise(formula, a)


@complex_rule("logical_and logical_or logical_xor")
def logic(ctx: LoweringContext, a: Any, b: Any) -> Value:
    assert ctx.fx_node is not None
    return real(ctx.fx_node.target)(ctx, truth(a), truth(b))


def truth(x: Any) -> Any:
    """Where a complex tensor is not 0; others unchanged."""
    return measured(_negated(is_zero), x) if isinstance(x, ComplexValue) else x


# -- between real and complex tensors --------------------------------------------------------


@complex_rule("complex")
def from_parts(ctx: LoweringContext, re: Value, im: Value) -> ComplexValue:
    if re.dtype is not im.dtype:
        raise CannotLower("parts of two dtypes, which eager refuses")
    dtype = result_dtype(ctx).to_real()
    size = broadcast_sizes([re.size, im.size])
    return ComplexValue(*(cast_value(expand(x, size), dtype) for x in (re, im)))


@complex_rule("polar")
def from_polar(ctx: LoweringContext, radius: Value, phase: Value) -> ComplexValue:
    z = from_parts(ctx, radius, phase)
    made = polar(z.re.body, z.im.body)
    return ComplexValue(*(Value(z.size, z.re.dtype, e) for e in made))


@complex_rule("view_as_complex view_as_complex_copy")
def view_as_complex(ctx: LoweringContext, x: Value) -> ComplexValue:
    return from_pairs(x)


@complex_rule("view_as_real view_as_real_copy")
def view_as_real(ctx: LoweringContext, z: ComplexValue) -> Value:
    return pairs_in_memory(ctx, z)


@complex_rule("_conj _conj_physical conj_physical _conj_copy resolve_conj")
def conjugated(ctx: LoweringContext, z: Any) -> ComplexValue:
    if not isinstance(z, ComplexValue):  # gradients conjugate the program's numbers, too
        z = as_parts(z, result_dtype(ctx).to_real())
    if ctx.fx_node is not None and ctx.fx_node.target is aten.resolve_conj.default:
        return z
    return conjugate(z)


@complex_rule("_neg_view _neg_view_copy")
def neg_view(ctx: LoweringContext, x: ComplexValue | Value) -> ComplexValue | Value:
    if isinstance(x, Value):
        return negated(x)
    return ComplexValue(negated(x.re), negated(x.im))


@complex_rule("_to_copy")
def to_copy(
    ctx: LoweringContext,
    x: ComplexValue | Value,
    *,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> ComplexValue | Value:
    """Between complex dtypes, from real ones, and to real ones, which drops the imaginary part."""
    dtype = dtype or x.dtype
    convert = aten._to_copy.default
    if isinstance(x, ComplexValue) and dtype is torch.bool:
        return truth(x)
    if not dtype.is_complex:
        assert isinstance(x, ComplexValue)
        return real(convert)(ctx, x.re, dtype=dtype, **options)
    part = dtype.to_real()
    if isinstance(x, Value):
        return as_parts(real(convert)(ctx, x, dtype=part, **options), part)
    return ComplexValue(*(real(convert)(ctx, p, dtype=part, **options) for p in (x.re, x.im)))


@complex_rule("linalg_vector_norm")
def vector_norm(ctx: LoweringContext, z: ComplexValue, *args: Any, **kwargs: Any) -> Value:
    kwargs["dtype"] = kwargs.get("dtype") and kwargs["dtype"].to_real()
    return real(aten.linalg_vector_norm.default)(ctx, measured(magnitude, z), *args, **kwargs)


@complex_rule("any any.dim any.dims all all.dim all.dims count_nonzero count_nonzero.dim_IntList")
def count(ctx: LoweringContext, z: ComplexValue, *args: Any, **kwargs: Any) -> Value:
    assert ctx.fx_node is not None
    return real(ctx.fx_node.target)(ctx, truth(z), *args, **kwargs)
