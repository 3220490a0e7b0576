"""Distances between the rows of two matrices, and their gradients."""

from __future__ import annotations

import math

import torch

from ocl_inductor.ir.expr import Expr, cast, compare, const, logical_and, op, where
from ocl_inductor.ir.index import loop_vars, same
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import broadcast_sizes, full, reused
from ocl_inductor.lowering.core.values import Value, expand
from ocl_inductor.lowering.reduce.reduce import reduce_dims
from ocl_inductor.operators.registry import CannotLower, register

aten = torch.ops.aten


def _differences(ctx: LoweringContext, x1: Value, x2: Value) -> Value:
    """``x1[.., i, k] - x2[.., j, k]`` at ``[.., i, j, k]``; batch dimensions broadcast."""
    batch = broadcast_sizes([x1.size[:-2], x2.size[:-2]])
    a = reused(ctx, expand(x1, (*batch, *x1.size[-2:])))
    b = reused(ctx, expand(x2, (*batch, *x2.size[-2:])))
    size = (*batch, a.size[-2], b.size[-2], a.size[-1])
    *lead, i, j, k = loop_vars(len(size))
    body = op("sub", a.at([*lead, i, k]), b.at([*lead, j, k]))
    return Value(size, x1.dtype, body)


def norm_of(total: Expr, p: float) -> Expr:
    if p in (0.0, 1.0) or math.isinf(p):
        return total
    if p == 2.0:
        return op("sqrt", total)
    return op("pow", total, const(1.0 / p, total.dtype))


def term_of(difference: Expr, p: float) -> Expr:
    size = op("abs", difference)
    if p == 0.0:
        differs = cast(compare("ne", size, const(0.0, size.dtype)), size.dtype)
        return where(compare("eq", size, size), differs, size)  # NaN stays
    if p == 1.0 or math.isinf(p):
        return size
    if p == 2.0:
        return op("mul", difference, difference)
    return op("pow", size, const(p, difference.dtype))


def check_norm(x: Value, p: float) -> None:
    if x.dtype not in (torch.float32, torch.float64):
        raise CannotLower(f"distances of {x.dtype}")
    if not isinstance(p, (int, float)):
        raise CannotLower("a symbolic norm")


@register(aten._cdist_forward.default)
def lower_cdist(
    ctx: LoweringContext, x1: Value, x2: Value, p: float, compute_mode: int | None
) -> Value:
    """``||x1[i] - x2[j]||_p``; ``p`` 0 counts the elements that differ.

    NaN gives NaN for every ``p``; eager's maximum norm passes over it.
    """
    check_norm(x1, p)
    p = float(p)
    differences = _differences(ctx, x1, x2)
    if any(same(n, 0) for n in differences.size):
        return full(differences.size[:-1], 0, x1.dtype)
    terms = Value(differences.size, x1.dtype, term_of(differences.body, p))
    how = "max" if math.isinf(p) else "sum"
    total = reduce_dims(ctx, terms, [terms.ndim - 1], how)
    return Value(total.size, x1.dtype, norm_of(total.body, p))


@register(aten._cdist_backward.default)
def lower_cdist_backward(
    ctx: LoweringContext, grad: Value, x1: Value, x2: Value, p: float, cdist: Value
) -> Value:
    """Gradient of ``x1``, with eager's conventions where the norm has none."""
    check_norm(x1, p)
    p = float(p)
    differences = _differences(ctx, x1, x2)
    size = (*differences.size[:-3], *x1.size[-2:])
    if any(same(n, 0) for n in differences.size):
        return full(x1.size, 0, x1.dtype)  # eager does not expand it then
    if p == 0.0:
        return full(size, 0, x1.dtype)
    *lead, i, j, _ = loop_vars(differences.ndim)
    d, zero = differences.body, const(0.0, x1.dtype)
    g, dist = (reused(ctx, v).at([*lead, i, j]) for v in (grad, cdist))
    rate = slope(d, dist, p)
    terms = Value(differences.size, x1.dtype, where(has_slope(d, dist, p, zero), rate, zero))
    scaled = Value(terms.size, x1.dtype, op("mul", g, terms.body))
    return reduce_dims(ctx, scaled, [terms.ndim - 2], "sum")


def has_slope(d: Expr, dist: Expr, p: float, zero: Expr) -> Expr:
    apart = compare("ne", dist, zero)
    if p >= 1.0:
        return apart
    return logical_and(apart, compare("ne", d, zero))


def slope(d: Expr, dist: Expr, p: float) -> Expr:
    """Derivative of the distance by one coordinate's difference; NaN where that is NaN."""
    if p == 1.0:
        return _sign(d)
    if p == 2.0:
        return op("div", d, dist)
    if math.isinf(p):
        beyond = op("sub", dist, op("abs", d))  # NaN where both are infinite, as in eager
        nearer = compare("gt", beyond, const(0.0, d.dtype))
        side = where(compare("eq", beyond, beyond), _sign(d), beyond)
        return where(nearer, const(0.0, d.dtype), side)
    power = const(p - 1.0, d.dtype)
    ratio = op("div", op("pow", op("abs", d), power), op("pow", dist, power))
    return op("mul", op("sign", d), ratio)


def _sign(x: Expr) -> Expr:
    """The sign of a number; ``op("sign")`` gives 0 for NaN, as ``torch.sign`` does."""
    return where(compare("eq", x, x), op("sign", x), x)
