"""Operators as expressions. Each function takes operands of one dtype and returns its result.

Formulas follow ATen's CPU kernels (``aten/src/ATen/native/cpu``), so that special values and
rounding agree; keyword-only parameters carry the names of ATen's schemas.
"""

from __future__ import annotations

import math

import torch

from ocl_inductor.ir.dtypes import HALF_TYPES
from ocl_inductor.ir.expr import Expr, compare, op, where
from ocl_inductor.lowering.pointwise.rows import constant, convert, rounded

Number = float | int | bool


def like(e: Expr, value: Number) -> Expr:
    """A literal of ``e``'s dtype."""
    return constant(value, e.dtype)


def truth(e: Expr) -> Expr:
    return convert(e, torch.bool)


def is_integral(e: Expr) -> bool:
    return not e.dtype.is_floating_point


def logical(name: str, a: Expr, b: Expr) -> Expr:
    return Expr(name, (a, b), torch.bool)


def negate(a: Expr) -> Expr:
    return Expr("logical_not", (a,), torch.bool)


# -- arithmetic ------------------------------------------------------------------------------


def scaled(b: Expr, alpha: Number) -> Expr:
    return b if alpha == 1 else mul(b, like(b, alpha))


def add(a: Expr, b: Expr, *, alpha: Number = 1) -> Expr:
    if a.dtype is torch.bool:
        return logical("logical_or", a, scaled(b, alpha))
    return op("add", a, scaled(b, alpha))


def sub(a: Expr, b: Expr, *, alpha: Number = 1) -> Expr:
    if a.dtype is torch.bool:
        return logical("logical_xor", a, scaled(b, alpha))
    return op("sub", a, scaled(b, alpha))


def rsub(a: Expr, b: Expr, *, alpha: Number = 1) -> Expr:
    return sub(b, a, alpha=alpha)


def mul(a: Expr, b: Expr) -> Expr:
    if a.dtype is torch.bool:
        return logical("logical_and", a, b)
    return op("mul", a, b)


def div(a: Expr, b: Expr) -> Expr:
    return op("div", a, b)


def reciprocal(a: Expr) -> Expr:
    return op("reciprocal", a)


def square(a: Expr) -> Expr:
    return mul(a, a)


def addcmul(a: Expr, t1: Expr, t2: Expr, *, value: Number = 1) -> Expr:
    return add(a, mul(scaled(t1, value), t2))


def addcdiv(a: Expr, t1: Expr, t2: Expr, *, value: Number = 1) -> Expr:
    return add(a, div(scaled(t1, value), t2))


def lerp(a: Expr, end: Expr, weight: Expr) -> Expr:
    """From the nearer end, so that weight 1 gives ``end`` exactly."""
    step = op("sub", end, a)
    near = compare("lt", op("abs", weight), like(weight, 0.5))
    back = mul(step, op("sub", like(weight, 1), weight))
    return where(near, add(a, mul(weight, step)), op("sub", end, back))


def power(a: Expr, b: Expr) -> Expr:
    """The exponents ATen special-cases, 4, and small integer powers of integers."""
    n = b.payload if b.op == "const" else None
    if a.dtype is torch.bool:
        return logical("logical_or", a, negate(b))  # 0**0 is 1
    if n is not None and is_integral(a) and 0 <= n <= 64:
        return _integer_power(a, int(n))
    if n is not None and not is_integral(a):
        if n in (0, 1, 2, 3, 4):
            return _integer_power(a, int(n))
        if n == 0.5:
            return op("sqrt", a)
        if n == -0.5:
            return op("rsqrt", a)
        if n in (-1, -2):
            return reciprocal(_integer_power(a, int(-n)))
    if a.op == "const" and not is_integral(a):
        if a.payload == 1:
            return a
        if a.payload == 2:
            return op("exp2", b)
    return op("pow", a, b)


def _integer_power(a: Expr, n: int) -> Expr:
    result: Expr | None = None
    base = a
    while n:
        if n & 1:
            result = base if result is None else mul(result, base)
        n >>= 1
        if n:
            base = mul(base, base)
    return like(a, 1) if result is None else result


def lcm(a: Expr, b: Expr) -> Expr:
    divisor = op("gcd", a, b)
    zero = compare("eq", divisor, like(a, 0))
    factor = op("trunc_div", a, divisor)
    if a.dtype in (torch.int8, torch.int16):  # in C++ these are integers of 32 bits until stored
        product = mul(op("abs", factor), op("abs", b))
    else:
        product = op("abs", mul(factor, b))
    return where(zero, like(a, 0), product)


def copysign(a: Expr, b: Expr) -> Expr:
    return op("copysign", a, b)


def nextafter(a: Expr, b: Expr) -> Expr:
    """Half types are floats in registers: rounded first, they have neighbours of their own."""
    if a.dtype not in HALF_TYPES:
        return op("nextafter", a, b)
    return op(f"nextafter_{str(a.dtype)[6:]}", rounded(a), rounded(b))


def round_decimals(a: Expr, *, decimals: int = 0) -> Expr:
    if is_integral(a) or decimals == 0:
        return op("round", a)
    factor = like(a, 10.0 ** abs(decimals))
    if decimals > 0:
        return div(op("round", mul(a, factor)), factor)
    return mul(op("round", div(a, factor)), factor)


# -- comparison and choice -------------------------------------------------------------------


def clamp(a: Expr, low: Expr | None, high: Expr | None) -> Expr:
    if low is not None:
        a = op("maximum", a, low)
    if high is not None:
        a = op("minimum", a, high)
    return a


def clamp_min(a: Expr, low: Expr) -> Expr:
    return clamp(a, low, None)


def clamp_max(a: Expr, high: Expr) -> Expr:
    return clamp(a, None, high)


def nan_to_num(
    a: Expr,
    *,
    nan: float | None,
    posinf: float | None,
    neginf: float | None,
    result_dtype: torch.dtype,
) -> Expr:
    if is_integral(a):
        return a
    limit = torch.finfo(result_dtype).max
    high = like(a, limit if posinf is None else posinf)
    low = like(a, -limit if neginf is None else neginf)
    e = where(compare("eq", a, like(a, math.inf)), high, a)
    e = where(compare("eq", a, like(a, -math.inf)), low, e)
    return where(compare("ne", a, a), like(a, 0.0 if nan is None else nan), e)


def heaviside(a: Expr, values: Expr) -> Expr:
    zero = like(a, 0)
    step = where(compare("gt", a, zero), like(a, 1), zero)
    return where(compare("eq", a, zero), values, step)


def isposinf(a: Expr) -> Expr:
    return constant(False, torch.bool) if is_integral(a) else compare("eq", a, like(a, math.inf))


def isneginf(a: Expr) -> Expr:
    return constant(False, torch.bool) if is_integral(a) else compare("eq", a, like(a, -math.inf))


def predicate(name: str):
    """isnan and the like, by the primitive of that name."""

    def fn(a: Expr) -> Expr:
        return Expr(name, (a,), torch.bool)

    return fn


def signbit(a: Expr) -> Expr:
    """Truth values have no sign, though true is -1 in the lanes of a vector."""
    if a.dtype in (torch.bool, torch.uint8):
        return constant(False, torch.bool)
    return Expr("signbit", (a,), torch.bool)


def logical_not(a: Expr) -> Expr:
    return negate(truth(a))


def logical_of(name: str):
    """A logical operator on the truth of its operands."""

    def fn(a: Expr, b: Expr) -> Expr:
        return logical(name, truth(a), truth(b))

    return fn


def comparison(name: str):
    def fn(a: Expr, b: Expr) -> Expr:
        return compare(name, a, b)

    return fn


def unary(name: str):
    """The primitive of that name on one operand."""

    def fn(a: Expr) -> Expr:
        return op(name, a)

    return fn


def binary(name: str):
    """The primitive of that name on two operands."""

    def fn(a: Expr, b: Expr) -> Expr:
        return op(name, a, b)

    return fn


def rounding(name: str):
    """floor and the like: the identity on integers."""

    def fn(a: Expr) -> Expr:
        return a if is_integral(a) else op(name, a)

    return fn


# -- functions -------------------------------------------------------------------------------


def xlogy(a: Expr, b: Expr) -> Expr:
    return _zero_times(a, b, op("log", b))


def xlog1py(a: Expr, b: Expr) -> Expr:
    return _zero_times(a, b, op("log1p", b))


def _zero_times(a: Expr, b: Expr, logarithm: Expr) -> Expr:
    product = where(compare("eq", a, like(a, 0)), like(a, 0), mul(a, logarithm))
    return where(compare("ne", b, b), b, product)


def entr(a: Expr) -> Expr:
    zero = like(a, 0)
    positive = mul(op("neg", a), op("log", a))
    outside = where(compare("eq", a, zero), zero, like(a, -math.inf))
    result = where(compare("gt", a, zero), positive, outside)
    return where(compare("ne", a, a), a, result)


def polygamma(a: Expr, *, n: int) -> Expr:
    """The n-th derivative of digamma: ``(-1)^(n+1) n! zeta(n+1, x)``."""
    if n < 2:
        return op("trigamma" if n else "digamma", a)
    factorial = float(math.factorial(n)) if n <= 170 else math.inf
    return mul(like(a, factorial if n % 2 else -factorial), op("zeta", like(a, n + 1), a))


def sinc(a: Expr) -> Expr:
    angle = mul(a, like(a, math.pi))
    value = div(op("sin", angle), angle)
    return where(compare("eq", a, like(a, 0)), like(a, 1), value)


def deg2rad(a: Expr) -> Expr:
    return mul(a, like(a, math.pi / 180))


def rad2deg(a: Expr) -> Expr:
    return mul(a, like(a, 180 / math.pi))


def angle(a: Expr) -> Expr:
    """Of a real number: 0 or pi, NaN stays."""
    result = where(compare("lt", a, like(a, 0)), like(a, math.pi), like(a, 0))
    return where(compare("ne", a, a), a, result)


def logaddexp(a: Expr, b: Expr) -> Expr:
    return _log_sum(a, b, op("log1p", op("exp", _minus_distance(a, b))))


def logaddexp2(a: Expr, b: Expr) -> Expr:
    inner = op("log1p", op("exp2", _minus_distance(a, b)))
    return _log_sum(a, b, mul(inner, like(a, 1 / math.log(2))))


def _minus_distance(a: Expr, b: Expr) -> Expr:
    return op("neg", op("abs", op("sub", a, b)))


def _log_sum(a: Expr, b: Expr, tail: Expr) -> Expr:
    # Equal infinities have no distance.
    equal = logical("logical_and", compare("eq", a, b), Expr("isinf", (a,), torch.bool))
    return where(equal, a, add(op("maximum", a, b), tail))
