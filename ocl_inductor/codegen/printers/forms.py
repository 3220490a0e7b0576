"""Emitters shared by many primitives: one operation on registers as C text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ocl_inductor.codegen.printers.conversions import is_float, literal, mask_from, wrap
from ocl_inductor.codegen.printers.math_library import has_function
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import REGISTER_TYPE, mask_type, register_type
from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.ops import PrintForm


@dataclass(frozen=True, slots=True)
class EmitTarget:
    """The target of emitted code: lanes in a register, and the device's facts."""

    width: int
    device: DeviceInfo


Emit = Callable[[EmitTarget, Expr, Sequence[str]], str]


def infix(operator: str) -> Emit:
    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        return wrap(f"{args[0]} {operator} {args[1]}", node.dtype, target.width)

    return emit


def wrapping(operator: str) -> Emit:
    """Arithmetic modulo 2^bits. Scalar signed overflow is undefined in C, a vector's is not."""

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        base = REGISTER_TYPE[node.dtype]
        if target.width == 1 and base in ("int", "long"):
            return f"(({base})((u{base}){args[0]} {operator} (u{base}){args[1]}))"
        if target.width == 1 and base == "ushort":  # C promotes it to int, which may overflow
            return f"((ushort)((uint){args[0]} {operator} (uint){args[1]}))"
        return wrap(f"{args[0]} {operator} {args[1]}", node.dtype, target.width)

    return emit


def boolean(operator: str) -> Emit:
    """Bitwise on masks is logical, for 0/1 and for 0/-1 alike."""

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        return f"({args[0]} {operator} {args[1]})"

    return emit


def compare(operator: str) -> Emit:
    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        dtype = node.args[0].dtype
        a, b = args
        if dtype is torch.bool and target.width > 1:
            a, b = b, a  # true is -1 in a lane, so the order is reversed
        return mask_from(f"{a} {operator} {b}", dtype, target.width)

    return emit


def library(name: str) -> Emit:
    """A function of the library, by the register type of the first operand."""

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        kind = register_type(node.args[0].dtype, target.width)
        return f"ocl_{name}_{kind}({', '.join(args)})"

    return emit


def builtin(name: str) -> Emit:
    """An OpenCL builtin on floats, or the library's function where the device's is slow or wrong;
    one lane at a time where it is wrong and the library has none.
    """

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        dtype = node.args[0].dtype
        single = REGISTER_TYPE[dtype] == "float"
        broken = target.width > 1 and name in target.device.broken_builtins
        if single and (broken or name in target.device.slow_builtins) and has_function(name):
            return f"ocl_{name}_{register_type(dtype, target.width)}({', '.join(args)})"
        if broken:
            return _lane_by_lane(name, register_type(dtype, target.width), target.width, args)
        return f"{name}({', '.join(args)})"

    return emit


def _lane_by_lane(name: str, kind: str, width: int, args: Sequence[str]) -> str:
    lanes = (f"{name}({', '.join(f'({a}).s{n:x}' for a in args)})" for n in range(width))
    return f"(({kind})({', '.join(lanes)}))"


def predicate(name: str) -> Emit:
    """isnan and the like of floats: int for float operands, long lanes for double ones."""

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        return mask_from(f"{name}({args[0]})", node.args[0].dtype, target.width)

    return emit


def formula(text: str) -> Emit:
    """C text with places for operands and literals, which :class:`PrintForm` names."""

    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        numbers = {name: literal(n, node.args[0].dtype, target.width) for name, n in _NUMBERS}
        truths = {name: literal(n, torch.bool, target.width) for name, n in _TRUTHS}
        return text.format(*args, **numbers, **truths)

    return emit


_NUMBERS = (("zero", 0), ("one", 1))
_TRUTHS = (("false", False), ("true", True))


def by_kind(of_float: Emit, of_int: Emit, of_bool: Emit | None = None) -> Emit:
    def emit(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
        dtype = node.args[0].dtype
        if dtype is torch.bool and of_bool is not None:
            return of_bool(target, node, args)
        return (of_float if is_float(dtype) else of_int)(target, node, args)

    return emit


def identity(target: EmitTarget, node: Expr, args: Sequence[str]) -> str:
    return args[0]


def choice(target: EmitTarget, dtype: torch.dtype, condition: str, chosen: str, other: str) -> str:
    """One of two registers of ``dtype``; ``condition``: 0 or 1, or a mask of as many bits."""
    if target.device.selects_bytes and mask_type(dtype, 1) == "char":
        mask = f"(char)(-({condition}))" if target.width == 1 else condition
        return f"select({other}, {chosen}, {mask})"
    return f"{condition} ? {chosen} : {other}"


#: How the text of a row's printer becomes an emitter; PrintForm.WRITTEN is in written.py.
FORMS: dict[PrintForm, Callable[[str], Emit]] = {
    PrintForm.INFIX: infix,
    PrintForm.WRAPPING: wrapping,
    PrintForm.BITS: boolean,
    PrintForm.COMPARISON: compare,
    PrintForm.PREDICATE: predicate,
    PrintForm.BUILTIN: builtin,
    PrintForm.LIBRARY: library,
    PrintForm.FORMULA: formula,
    PrintForm.IDENTITY: lambda text: identity,
}
