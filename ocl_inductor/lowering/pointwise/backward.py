"""Rows of the gradients of pointwise operators that AOTAutograd may leave whole."""

from __future__ import annotations

import math

import torch

from ocl_inductor.ir.expr import Expr, compare, op, where
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.values import Value
from ocl_inductor.lowering.pointwise.activations import gelu_gate, log_sigmoid
from ocl_inductor.lowering.pointwise.formulas import Number, add, div, like, logical, mul
from ocl_inductor.lowering.pointwise.rows import (
    DEFAULT,
    INT_TO_FLOAT,
    Row,
    elementwise,
    overloads,
    register_rows,
    round_to,
    row,
)
from ocl_inductor.operators.registry import register


def _sub(a: Expr, b: Expr) -> Expr:
    return op("sub", a, b)


def threshold_backward(grad: Expr, x: Expr, *, threshold: Number) -> Expr:
    return where(compare("le", x, like(x, threshold)), like(x, 0), grad)


def sigmoid_backward(grad: Expr, y: Expr) -> Expr:
    return mul(mul(grad, _sub(like(y, 1), y)), y)


def tanh_backward(grad: Expr, y: Expr) -> Expr:
    return mul(grad, _sub(like(y, 1), mul(y, y)))


def gelu_backward(grad: Expr, x: Expr, *, approximate: str = "none") -> Expr:
    one, half = like(x, 1), like(x, 0.5)
    gate = gelu_gate(x, approximate)
    left = mul(half, add(one, gate))
    if approximate == "none":
        density = op("exp_negative", mul(mul(x, x), like(x, -0.5)))
        slope = mul(density, like(x, 1 / math.sqrt(2 * math.pi)))
        return mul(grad, add(left, mul(x, slope)))
    beta = math.sqrt(2 / math.pi)
    inner = mul(like(x, beta), add(one, mul(like(x, 3 * 0.044715), mul(x, x))))
    slope = mul(mul(mul(half, x), _sub(one, mul(gate, gate))), inner)
    return mul(grad, add(left, slope))


def silu_backward(grad: Expr, x: Expr) -> Expr:
    s, one = op("sigmoid", x), like(x, 1)
    return mul(mul(grad, s), add(one, mul(x, _sub(one, s))))


def mish_backward(grad: Expr, x: Expr) -> Expr:
    gate = op("tanh", op("log1p", op("exp", x)))
    slope = mul(mul(x, op("sigmoid", x)), _sub(like(x, 1), mul(gate, gate)))
    return mul(grad, add(gate, slope))


def hardtanh_backward(grad: Expr, x: Expr, *, min_val: Number, max_val: Number) -> Expr:
    low, high = compare("gt", x, like(x, min_val)), compare("lt", x, like(x, max_val))
    return where(logical("logical_and", low, high), grad, like(x, 0))


def hardsigmoid_backward(grad: Expr, x: Expr) -> Expr:
    inside = logical("logical_and", compare("gt", x, like(x, -3)), compare("lt", x, like(x, 3)))
    # A sixth of float32, also in double precision: eager's.
    return where(inside, mul(grad, like(x, round_to(1 / 6, torch.float32))), like(x, 0))


def hardswish_backward(grad: Expr, x: Expr) -> Expr:
    middle = mul(grad, add(div(x, like(x, 3)), like(x, 0.5)))
    upper = where(compare("ge", x, like(x, 3)), grad, middle)
    return where(compare("le", x, like(x, -3)), like(x, 0), upper)


def leaky_relu_backward(
    grad: Expr, x: Expr, *, negative_slope: Number, self_is_result: bool = False
) -> Expr:
    return where(compare("gt", x, like(x, 0)), grad, mul(grad, like(x, negative_slope)))


def elu_backward(
    grad: Expr, x: Expr, *, alpha: Number, scale: Number, input_scale: Number, is_result: bool
) -> Expr:
    negative_scale = alpha * scale
    if is_result:
        slope = mul(add(x, like(x, negative_scale)), like(x, input_scale))
    else:
        exponential = op("exp", mul(x, like(x, input_scale)))
        slope = mul(exponential, like(x, input_scale * negative_scale))
    # In this order NaN gets the exponential's slope, which is NaN.
    return where(compare("gt", x, like(x, 0)), mul(grad, like(x, scale)), mul(grad, slope))


def softplus_backward(grad: Expr, x: Expr, *, beta: Number, threshold: Number) -> Expr:
    scaled = mul(x, like(x, beta))
    # exp(s) / (exp(s) + 1) written so that it cannot overflow.
    slope = op("sigmoid", scaled)
    return where(compare("gt", scaled, like(x, threshold)), grad, mul(grad, slope))


def logit_backward(grad: Expr, x: Expr, *, eps: float | None = None) -> Expr:
    one, zero = like(x, 1), like(x, 0)
    slope = div(grad, mul(x, _sub(one, x)))
    low = zero if eps is None or eps < 0 else like(x, eps)
    high = one if eps is None or eps < 0 else like(x, 1 - eps)
    outside = logical("logical_or", compare("lt", x, low), compare("gt", x, high))
    return where(outside, like(x, math.nan) if eps is None or eps < 0 else zero, slope)


def shrink_backward(grad: Expr, x: Expr, *, lambd: Number) -> Expr:
    inside = logical(
        "logical_and", compare("ge", x, like(x, -lambd)), compare("le", x, like(x, lambd))
    )
    return where(inside, like(x, 0), grad)


def log_sigmoid_backward(grad: Expr, x: Expr) -> Expr:
    return mul(grad, op("sigmoid", op("neg", x)))


def dropout_backward(grad: Expr, mask: Expr, *, scale: Number) -> Expr:
    return mul(mul(grad, mask), like(grad, scale))


ROWS: list[Row] = [
    row("threshold_backward", threshold_backward),
    row("sigmoid_backward", sigmoid_backward),
    row("tanh_backward", tanh_backward),
    row("gelu_backward", gelu_backward),
    row("silu_backward", silu_backward),
    row("mish_backward", mish_backward),
    row("hardtanh_backward", hardtanh_backward),
    row("hardsigmoid_backward", hardsigmoid_backward),
    row("hardswish_backward", hardswish_backward),
    row("leaky_relu_backward", leaky_relu_backward),
    row("elu_backward", elu_backward, operands="grad_output self_or_result"),
    row("softplus_backward", softplus_backward),
    row("logit_backward", logit_backward),
    row("hardshrink_backward softshrink_backward", shrink_backward),
    row("log_sigmoid_backward", log_sigmoid_backward),
    row("native_dropout_backward", dropout_backward, INT_TO_FLOAT),
]

register_rows(ROWS)


@register(*overloads("log_sigmoid_forward"))
def lower_log_sigmoid_forward(ctx: LoweringContext, x: Value) -> tuple[Value, Value]:
    """The result, and ``exp(-|x|)``, which the CPU kernel keeps for the gradient."""

    def kept(e: Expr) -> Expr:
        return op("exp_negative", op("neg", op("abs", e)))

    result = elementwise(ctx, log_sigmoid, [x], DEFAULT)
    return result, elementwise(ctx, kept, [x], DEFAULT)


@register(*overloads("_prelu_kernel_backward"))
def lower_prelu_backward(
    ctx: LoweringContext, grad: Value, x: Value, weight: Value
) -> tuple[Value, Value]:
    """Gradients of the input and, before its reduction, of the weight."""

    def of_input(g: Expr, e: Expr, w: Expr) -> Expr:
        return where(compare("gt", e, like(e, 0)), g, mul(w, g))

    def of_weight(g: Expr, e: Expr) -> Expr:
        return where(compare("gt", e, like(e, 0)), like(e, 0), mul(e, g))

    by_input = elementwise(ctx, of_input, [grad, x, weight], DEFAULT)
    return by_input, elementwise(ctx, of_weight, [grad, x], DEFAULT)
