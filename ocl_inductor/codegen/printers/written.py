"""Printers that are functions: the primitives whose text depends on dtype, lanes or device.

``WRITTEN`` has them by the names that rows of ``ir/ops.py`` use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ocl_inductor.codegen.printers import conversions
from ocl_inductor.codegen.printers.conversions import (
    convert,
    is_float,
    literal,
    mask_as,
    mask_from,
    wrap,
)
from ocl_inductor.codegen.printers.forms import (
    Emit,
    EmitTarget,
    builtin,
    choice,
    library,
    wrapping,
)
from ocl_inductor.ir.dtypes import REGISTER_TYPE, mask_type, register_type
from ocl_inductor.ir.expr import Expr, fits_int


def _neg(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    if is_float(node.dtype) or target.width > 1:
        return f"(-{args[0]})"
    return wrapping("-")(target, node, ["0", args[0]])


def _abs_int(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    if node.dtype is torch.uint8:
        return args[0]
    if target.width == 1:
        # Compilers turn a negation in a select into an intrinsic that oclgrind does not support.
        return f"(({REGISTER_TYPE[node.dtype]})abs({args[0]}))"
    zero = literal(0, node.dtype, target.width)
    negative = _neg(target, node, args)
    chosen = choice(target, node.dtype, f"{args[0]} < {zero}", negative, args[0])
    return wrap(chosen, node.dtype, target.width)


def _divide(name: str, operator: str | None) -> Emit:
    """Integer division; a divisor that is a harmless constant needs no guard against traps."""

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        divisor = node.args[1]
        unsigned = node.dtype is torch.uint8
        if divisor.op == "const" and divisor.payload not in (0, -1):
            if operator is not None:
                return wrap(f"{args[0]} {operator} {args[1]}", node.dtype, target.width)
            if unsigned:
                sign = {"floor_div": "/", "remainder": "%"}[name]
                return wrap(f"{args[0]} {sign} {args[1]}", node.dtype, target.width)
        return library(name)(target, node, args)

    return emit


def _is_number(e: Expr, text: str, width: int) -> bool:
    """Whether ``text`` is a constant but NaN. In a reduction a constant stands for its operands."""
    if e.op != "const" or math.isnan(e.payload):
        return False
    return text == literal(e.payload, e.dtype, width)


def _min_max(operator: str) -> Emit:
    """NaN in either operand gives NaN: the unordered comparison keeps a NaN on the left.

    Against a number, as in a ReLU, one comparison does: it is false for NaN.
    """
    other = {"<": ">=", ">": "<="}[operator]

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        a, b = args
        if not is_float(node.dtype):
            chosen = choice(target, node.dtype, f"{a} {operator} {b}", a, b)
            return wrap(chosen, node.dtype, target.width)
        if _is_number(node.args[1], b, target.width):
            return f"({a} {other} {b} ? {b} : {a})"
        return f"((({a} {operator} {b}) | ({a} != {a})) ? {a} : {b})"

    return emit


def _fma_int(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    return wrapping("+")(target, node, [wrapping("*")(target, node, args), args[2]])


def _logical_not(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    return f"(!{args[0]})" if target.width == 1 else f"(~{args[0]})"


def _bitwise_not(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    if node.dtype is torch.bool:
        return _logical_not(target, node, args)
    return wrap(f"~{args[0]}", node.dtype, target.width)


def _where(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    condition = mask_as(args[0], node.dtype, target.width, target.device.widens_by_parts)
    return f"({choice(target, node.dtype, condition, args[1], args[2])})"


def _exp_negative(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    """exp() where the operand is known to be 0 or less, or NaN.

    With explicit lanes the builtin is a function call that also handles overflow: from cache, sums
    of it over 4M elements take 0.52 ms on Intel's driver and 1.16 on PoCL 3.1, with our own
    function 0.42 and 0.74 (two cores with AVX-512). GPUs have instructions for it.
    """
    own = REGISTER_TYPE[node.dtype] == "float" and target.width > 1
    return (library("exp_negative") if own else builtin("exp"))(target, node, args)


def _sign(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    dtype, width = node.dtype, target.width
    zero, one = literal(0, dtype, width), literal(1, dtype, width)
    if dtype is torch.uint8:
        return wrap(f"{args[0]} != {zero} ? {one} : {zero}", dtype, width)
    minus = literal(-1, dtype, width)
    x = args[0]
    # The inner choice is written out because ?: nests the same way in scalar and vector code.
    return wrap(f"{x} > {zero} ? {one} : ({x} < {zero} ? {minus} : {zero})", dtype, width)


def _signbit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    dtype, width = node.args[0].dtype, target.width
    if is_float(dtype):
        # The bits themselves: signbit() of a vector of doubles gives lanes of another width.
        bits = mask_type(dtype, width)
        return mask_from(f"as_{bits}({args[0]}) < ({bits})(0)", dtype, width)
    zero = literal(0, dtype, width)
    return mask_from(f"{args[0]} < {zero}", dtype, width)


def _ldexp(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    exponent = convert(args[1], "int", target.width)
    return f"ldexp({args[0]}, {exponent})"


def _pow(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    vectors_of_doubles = node.dtype is torch.float64 and target.width > 1
    return (library("pow_lanes") if vectors_of_doubles else builtin("pow"))(target, node, args)


def _mul_hi(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    """The upper half of the product of operands taken as unsigned."""
    kind = register_type(node.dtype, target.width)
    a, b = (f"as_u{kind}({x})" for x in args)
    return f"as_{kind}(mul_hi({a}, {b}))"


def _cast(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    by_parts = target.device.widens_by_parts
    source = node.args[0]
    if node.dtype in (torch.uint8, torch.int8) and fits_int(source):
        return conversions.cast_by_int(args[0], node.dtype, target.width)
    return conversions.cast(args[0], source.dtype, node.dtype, target.width, by_parts)


def _reinterpret(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    return f"as_{register_type(node.dtype, target.width)}({args[0]})"


WRITTEN: dict[str, Emit] = {
    "neg": _neg,
    "abs_int": _abs_int,
    "trunc_div": _divide("trunc_div", "/"),
    "floor_div": _divide("floor_div", None),
    "remainder": _divide("remainder", None),
    "fmod": _divide("fmod", "%"),
    "minimum": _min_max("<"),
    "maximum": _min_max(">"),
    "fma_int": _fma_int,
    "mul_hi": _mul_hi,
    "logical_not": _logical_not,
    "bitwise_not": _bitwise_not,
    "where": _where,
    "sign": _sign,
    "signbit": _signbit,
    "exp_negative": _exp_negative,
    "pow": _pow,
    "ldexp": _ldexp,
    "cast": _cast,
    "reinterpret": _reinterpret,
}
