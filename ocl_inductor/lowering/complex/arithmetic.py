"""Pointwise operators on complex tensors: rules made of formulas, and those with arguments of their
own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.index import Size
from ocl_inductor.lowering.complex import formulas as f
from ocl_inductor.lowering.complex.formulas import Pair
from ocl_inductor.lowering.complex.pairs import (
    Factor,
    Operand,
    as_parts,
    conjugate,
    from_pairs,
    negated,
    pairs_in_memory,
)
from ocl_inductor.lowering.complex.rules import complex_rule, enter, real, result_dtype
from ocl_inductor.lowering.core.context import LoweringContext
from ocl_inductor.lowering.core.shapes import broadcast_sizes, cast_value
from ocl_inductor.lowering.core.values import ComplexValue, Value, expand
from ocl_inductor.lowering.pointwise.rows import overloads, stand_in
from ocl_inductor.operators.registry import CannotLower

aten = torch.ops.aten


# -- how a formula becomes a rule ------------------------------------------------------------


def common_part(operands: Sequence[Operand]) -> torch.dtype:
    """The real dtype of the parts in which complex operands and others are computed together."""
    stand_ins: list[torch.Tensor | complex] = []
    for x in operands:
        if isinstance(x, (Value, ComplexValue)):
            stand_ins.append(stand_in(x.dtype, x.ndim > 0))
        elif isinstance(x, (bool, int, float, complex)):
            stand_ins.append(x)
        else:
            raise CannotLower(f"operand of type {type(x).__name__}")
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    dtype = elementwise_dtypes(*stand_ins, type_promotion_kind=kind)[1]
    if dtype not in (torch.complex64, torch.complex128):
        raise CannotLower(f"dtype {dtype}")
    return dtype.to_real()


def _operands(operands: Sequence[Operand]) -> tuple[tuple[Size, ...], list[Pair]]:
    """Tensors and Python numbers broadcast in a common dtype: the size, and the parts of each."""
    dtype = common_part(operands)
    parts = [as_parts(x, dtype) for x in operands]
    size = broadcast_sizes([x.size for x in parts])
    return size, [(expand(x.re, size).body, expand(x.im, size).body) for x in parts]


def pointwise(formula: Callable[..., Pair], *operands: Operand) -> ComplexValue:
    """A complex ``formula`` over operands (tensors and Python numbers)."""
    size, pairs = _operands(operands)
    re, im = formula(*pairs)
    return ComplexValue(Value(size, re.dtype, re), Value(size, im.dtype, im))


def measured(formula: Callable[..., Expr], *operands: Operand) -> Value:
    """The same for a formula that gives a real number or a truth value."""
    size, pairs = _operands(operands)
    body = formula(*pairs)
    return Value(size, body.dtype, body)


#: Operators of one or two operands that give complex numbers.
_COMPLEX: dict[str, Callable[..., Pair]] = {
    "cos": f.cos,
    "cosh": f.cosh,
    "div.Tensor div.Scalar true_divide.Tensor true_divide.Scalar": f.div,
    "exp": f.exp,
    "exp2": lambda a: f.exp(f.scaled(a, math.log(2))),
    "expm1": f.expm1,
    "lerp.Scalar lerp.Tensor": f.lerp,
    "log": f.log,
    "log10": lambda a: f.scaled(f.log(a), 1 / math.log(10)),
    "log2": lambda a: f.scaled(f.log(a), 1 / math.log(2)),
    "log1p": f.log1p,
    "mul.Tensor mul.Scalar": f.mul,
    "neg": f.neg,
    "reciprocal": f.reciprocal,
    "rsqrt": f.rsqrt,
    "sgn": f.sgn,
    "sigmoid": f.sigmoid,
    "sigmoid_backward": f.sigmoid_backward,
    "silu": f.silu,
    "sin": f.sin,
    "sinh": f.sinh,
    "sqrt": f.sqrt,
    "square": f.square,
    "tanh": f.tanh,
    "tanh_backward": f.tanh_backward,
}

#: Those that give real numbers or truth values.
_REAL: dict[str, Callable[..., Expr]] = {
    "abs": f.magnitude,
    "angle": f.angle,
    "eq.Tensor eq.Scalar": f.equal,
    "isinf": f.either("isinf"),
    "isnan": f.either("isnan"),
    "logical_not": f.is_zero,
    "ne.Tensor ne.Scalar": f.negation(f.equal),
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
def add_scaled(ctx: LoweringContext, a: Operand, b: Operand, alpha: Factor = 1) -> ComplexValue:
    return _sum(a, b, alpha)


@complex_rule("sub.Tensor sub.Scalar")
def sub_scaled(ctx: LoweringContext, a: Operand, b: Operand, alpha: Factor = 1) -> ComplexValue:
    if alpha == 1:
        return pointwise(f.sub, a, b)
    return _sum(a, b, -alpha)


@complex_rule("rsub.Tensor rsub.Scalar")
def rsub(ctx: LoweringContext, a: Operand, b: Operand, alpha: Factor = 1) -> ComplexValue:
    return sub_scaled(ctx, b, a, alpha)


def _sum(a: Operand, b: Operand, alpha: Factor) -> ComplexValue:
    if isinstance(alpha, sympy.Basic):
        raise CannotLower("a symbolic factor")
    if alpha == 1:
        return pointwise(f.add, a, b)
    return pointwise(lambda x, y, z: f.add(x, f.mul(y, z)), a, b, alpha)


@complex_rule("addcmul")
def addcmul(
    ctx: LoweringContext, a: Operand, b: Operand, c: Operand, *, value: Factor = 1
) -> ComplexValue:
    if value == 1:
        return pointwise(lambda x, y, z: f.add(x, f.mul(y, z)), a, b, c)
    return pointwise(lambda x, y, z, w: f.add(x, f.mul(f.mul(w, y), z)), a, b, c, value)


@complex_rule("addcdiv")
def addcdiv(
    ctx: LoweringContext, a: Operand, b: Operand, c: Operand, *, value: Factor = 1
) -> ComplexValue:
    return pointwise(lambda x, y, z, w: f.add(x, f.mul(w, f.div(y, z))), a, b, c, value)


#: Powers that eager computes as products, too.
_POWERS: dict[float, Callable[[Pair], Pair]] = {
    0.5: f.sqrt,
    1: lambda a: a,
    2: f.square,
    3: lambda a: f.mul(f.square(a), a),
    -1: f.reciprocal,
    -2: lambda a: f.reciprocal(f.square(a)),
}


@complex_rule("pow.Tensor_Scalar")
def power(ctx: LoweringContext, a: ComplexValue, exponent: Factor) -> ComplexValue:
    if isinstance(exponent, complex) and exponent.imag == 0:
        exponent = exponent.real
    formula = _POWERS.get(exponent) if isinstance(exponent, (int, float)) else None
    if formula is None:
        raise CannotLower(f"a complex number to the power of {exponent}")
    return pointwise(formula, a)


@complex_rule("logical_and logical_or logical_xor")
def logic(ctx: LoweringContext, a: Operand, b: Operand) -> Value:
    assert ctx.fx_node is not None
    return real(ctx.fx_node.target)(ctx, truth(a), truth(b))


def truth(x: Operand) -> Value | Factor:
    """Where a complex tensor is not 0; others unchanged."""
    return measured(f.negation(f.is_zero), x) if isinstance(x, ComplexValue) else x


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
    made = f.polar(z.re.body, z.im.body)
    return ComplexValue(*(Value(z.size, z.re.dtype, e) for e in made))


@complex_rule("view_as_complex view_as_complex_copy")
def view_as_complex(ctx: LoweringContext, x: Value) -> ComplexValue:
    return from_pairs(x)


@complex_rule("view_as_real view_as_real_copy")
def view_as_real(ctx: LoweringContext, z: ComplexValue) -> Value:
    return pairs_in_memory(ctx, z)


@complex_rule("_conj _conj_physical conj_physical _conj_copy resolve_conj")
def conjugated(ctx: LoweringContext, z: Operand) -> ComplexValue:
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
    **options: object,
) -> ComplexValue | Value:
    """Between complex dtypes, from real ones, and to real ones, which drops the imaginary part."""
    dtype = dtype or x.dtype
    convert = aten._to_copy.default
    if isinstance(x, ComplexValue) and dtype is torch.bool:
        return measured(f.negation(f.is_zero), x)
    if not dtype.is_complex:
        assert isinstance(x, ComplexValue)
        return real(convert)(ctx, x.re, dtype=dtype, **options)
    part = dtype.to_real()
    if isinstance(x, Value):
        return as_parts(real(convert)(ctx, x, dtype=part, **options), part)
    return ComplexValue(*(real(convert)(ctx, p, dtype=part, **options) for p in (x.re, x.im)))


@complex_rule("linalg_vector_norm")
def vector_norm(ctx: LoweringContext, z: ComplexValue, *args: object, **kwargs: Any) -> Value:
    kwargs["dtype"] = kwargs.get("dtype") and kwargs["dtype"].to_real()
    return real(aten.linalg_vector_norm.default)(ctx, measured(f.magnitude, z), *args, **kwargs)


@complex_rule("any any.dim any.dims all all.dim all.dims count_nonzero count_nonzero.dim_IntList")
def count(ctx: LoweringContext, z: ComplexValue, *args: object, **kwargs: object) -> Value:
    assert ctx.fx_node is not None
    return real(ctx.fx_node.target)(ctx, truth(z), *args, **kwargs)
