"""Complex arithmetic as formulas of the two parts of each number.

Infinities and NaN come out as in eager where that is well-defined: a real operand of a product or a
quotient has an imaginary part of 0, which takes part.
"""

from __future__ import annotations

from collections.abc import Callable

from ocl_inductor.ir.expr import Expr, compare, const, op, where

#: The parts of one element.
Pair = tuple[Expr, Expr]


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
    """Of ``|1 + z|^2 - 1`` where that is exact enough; near -1, where it cancels, of ``1 + z``."""
    re, im = a
    half, unit, two = (const(x, re.dtype) for x in (0.5, 1, 2))
    moved = op("add", re, unit)
    squares = op("add", op("mul", re, op("add", re, two)), op("mul", im, im))
    size = op("mul", half, op("log1p", squares))
    near = op("log", op("hypot", moved, im))
    return where(compare("lt", squares, op("neg", half)), near, size), op("atan2", im, moved)


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


def negation(test: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda *operands: op("logical_not", test(*operands))


def either(name: str) -> Callable[[Pair], Expr]:
    return lambda a: op("logical_or", op(name, a[0]), op(name, a[1]))
