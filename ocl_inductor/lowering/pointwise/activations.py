"""Activation functions as expressions, after ``aten/src/ATen/native/cpu/Activation.cpp``."""

from __future__ import annotations

import math

from ocl_inductor.ir.expr import Expr, compare, op, where
from ocl_inductor.lowering.pointwise.formulas import Number, add, clamp, div, like, mul


def relu(x: Expr) -> Expr:
    return op("maximum", x, like(x, 0))


def relu6(x: Expr) -> Expr:
    return clamp(x, like(x, 0), like(x, 6))


def hardtanh(x: Expr, *, min_val: Number = -1, max_val: Number = 1) -> Expr:
    return clamp(x, like(x, min_val), like(x, max_val))


def threshold(x: Expr, *, threshold: Number, value: Number) -> Expr:
    return where(compare("le", x, like(x, threshold)), like(x, value), x)


def leaky_relu(x: Expr, *, negative_slope: Number = 0.01) -> Expr:
    return where(compare("gt", x, like(x, 0)), x, mul(x, like(x, negative_slope)))


def prelu(x: Expr, weight: Expr) -> Expr:
    return where(compare("gt", x, like(x, 0)), x, mul(weight, x))


def elu(x: Expr, *, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Expr:
    inner = x if input_scale == 1 else mul(x, like(x, input_scale))
    negative = mul(op("expm1", inner), like(x, alpha * scale))
    positive = x if scale == 1 else mul(x, like(x, scale))
    return where(compare("lt", x, like(x, 0)), negative, positive)


def celu(x: Expr, *, alpha: Number = 1) -> Expr:
    return elu(x, alpha=alpha, input_scale=1.0 / alpha)


SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def selu(x: Expr) -> Expr:
    return elu(x, alpha=SELU_ALPHA, scale=SELU_SCALE)


def silu(x: Expr) -> Expr:
    return div(x, add(like(x, 1), op("exp", op("neg", x))))


def mish(x: Expr) -> Expr:
    return mul(x, op("tanh", op("log1p", op("exp", x))))


def hard_gate(x: Expr) -> Expr:
    """``min(max(x + 3, 0), 6)``."""
    return clamp(add(x, like(x, 3)), like(x, 0), like(x, 6))


def hardsigmoid(x: Expr) -> Expr:
    return div(hard_gate(x), like(x, 6))


def hardswish(x: Expr) -> Expr:
    return div(mul(x, hard_gate(x)), like(x, 6))


def gelu(x: Expr, *, approximate: str = "none") -> Expr:
    if approximate == "none":
        # Cheaper and closer than (1 + erf)/2, which cancels for negative x.
        return mul(x, op("normal_cdf", x))
    half = mul(like(x, 0.5), x)
    return mul(half, add(like(x, 1), gelu_gate(x, approximate)))


def gelu_gate(x: Expr, approximate: str) -> Expr:
    """What gelu adds to one: erf(x / sqrt 2) or its approximation by tanh."""
    if approximate == "none":
        return op("erf", mul(x, like(x, math.sqrt(0.5))))
    cube = mul(mul(x, x), x)
    inner = add(x, mul(like(x, 0.044715), cube))
    return op("tanh", mul(like(x, math.sqrt(2 / math.pi)), inner))


def softplus(x: Expr, *, beta: Number = 1, threshold: Number = 20) -> Expr:
    inner = x if beta == 1 else mul(x, like(x, beta))
    soft = op("log1p", op("exp", inner))
    soft = soft if beta == 1 else div(soft, like(x, beta))
    return where(compare("gt", inner, like(x, threshold)), x, soft)


def log_sigmoid(x: Expr) -> Expr:
    tail = op("log1p", op("exp_negative", op("neg", op("abs", x))))
    return op("sub", op("minimum", x, like(x, 0)), tail)


def logit(x: Expr, *, eps: float | None = None) -> Expr:
    if eps is not None and eps >= 0:
        x = clamp(x, like(x, eps), like(x, 1 - eps))
    return op("log", div(x, op("sub", like(x, 1), x)))


def hardshrink(x: Expr, *, lambd: Number = 0.5) -> Expr:
    low = compare("ge", x, like(x, -lambd))
    high = compare("le", x, like(x, lambd))
    return where(low, where(high, like(x, 0), x), x)


def softshrink(x: Expr, *, lambd: Number = 0.5) -> Expr:
    bound = like(x, lambd)
    # Times zero, so that NaN stays.
    inside = mul(x, like(x, 0))
    below = where(compare("lt", x, like(x, -lambd)), add(x, bound), inside)
    return where(compare("gt", x, bound), op("sub", x, bound), below)
