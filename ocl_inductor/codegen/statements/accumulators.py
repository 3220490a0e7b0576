"""Accumulators of reductions and scans: initial value, update, and how lanes are combined."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ocl_inductor.codegen.printers.conversions import literal, widen_by_parts
from ocl_inductor.codegen.printers.forms import EmitTarget
from ocl_inductor.codegen.printers.primitives import emit_primitive
from ocl_inductor.codegen.tree.nodes import (
    Accumulate,
    Accumulator,
    Array,
    Assign,
    BlockStatement,
    CallStatement,
    For,
    If,
    Let,
    LoopBound,
    Statement,
    Variable,
)
from ocl_inductor.codegen.tree.rewrite import rewritten
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.ir.dtypes import mask_type, register_type, vector
from ocl_inductor.ir.expr import Expr

#: Primitive that combines two partial results.
COMBINE = {
    "sum": "add",
    "prod": "mul",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
    "logaddexp": "logaddexp",
}
#: Types of masks of less than 64 bits.
_MASKS = {"char": torch.int8, "short": torch.int16, "int": torch.int32}


def identity(how: str, dtype: torch.dtype) -> float | int | bool:
    """The neutral element of the combination."""
    if how in ("sum", "any"):
        return False if dtype is torch.bool else 0
    if how in ("prod", "all"):
        return True if dtype is torch.bool else 1
    highest = how in ("min", "argmin")
    if dtype is torch.bool:
        return highest
    if dtype.is_floating_point:
        return float("inf") if highest else float("-inf")
    info = torch.iinfo(dtype)
    return info.max if highest else info.min


def combine_text(how: str, target: EmitTarget, dtype: torch.dtype, a: str, b: str) -> str:
    """C expression of ``a`` combined with ``b`` at the target's width."""
    leaf = Expr("const", (), dtype, identity(how, dtype))
    node = Expr(COMBINE[how], (leaf, leaf), dtype)
    return emit_primitive(target, node, [a, b])


def declared(a: Accumulator) -> list[Statement]:
    """Its variables, with the neutral element of what it combines."""
    kind = register_type(a.dtype, a.width)
    start = literal(identity(a.how, a.dtype), a.dtype, a.width)
    found: list[Statement] = [Variable(kind, a.name, start)]
    if a.is_position:
        # No element seen yet: any real position is smaller, so ties with the start value
        # (a row of -inf) still end at the first element.
        far = "INT_MAX" if a.position_type == "int" else "LONG_MAX"
        position = vector(a.position_type, a.width)
        found.append(Variable(position, f"{a.name}_at", f"({position})({far})"))
    return found


def written_out(statements: Sequence[Statement], device: DeviceInfo) -> list[Statement]:
    """The statements, with assignments in place of ``Accumulate``."""

    def rule(s: Statement) -> Sequence[Statement]:
        if isinstance(s, Accumulate):
            return _taken(s.into, EmitTarget(s.into.width, device), s.value, s.position)
        return [s]

    return rewritten(statements, rule)


def _taken(a: Accumulator, target: EmitTarget, value: str, position: str) -> list[Statement]:
    if not a.is_position:
        return [Assign(a.name, combine_text(a.how, target, a.dtype, a.name, value))]
    better = _better(a, value, a.name, position, f"{a.name}_at")
    if a.width == 1:
        return [If(better, (Assign(a.name, value), Assign(f"{a.name}_at", position)))]
    value_mask = mask_type(a.dtype, a.width)
    place_mask = vector(a.position_type, a.width)
    flag = f"{a.name}_better"
    at, far = f"{a.name}_at", f"convert_{place_mask}({flag})"
    narrow = _MASKS.get(mask_type(a.dtype, 1))
    if target.device.widens_by_parts and a.position_type == "long" and narrow is not None:
        far = widen_by_parts(flag, narrow, a.width)
    selected = (
        Let(value_mask, flag, better),
        Assign(a.name, f"select({a.name}, {value}, {flag})"),
        Assign(at, f"select({at}, {position}, {far})"),
    )
    return [BlockStatement(selected)]


def _better(a: Accumulator, x: str, best: str, at: str, best_at: str) -> str:
    """Whether ``x`` at ``at`` beats the best so far: NaN beats all, then order, then first."""
    order = ">" if a.how == "argmax" else "<"
    earlier = f"({at} < {best_at})"
    if a.width > 1:
        earlier = f"convert_{mask_type(a.dtype, a.width)}{earlier}"
    if not a.dtype.is_floating_point:
        return f"({x} {order} {best}) | (({x} == {best}) & {earlier})"
    nan_x, nan_best = f"({x} != {x})", f"({best} != {best})"
    return (
        f"((({x} {order} {best}) | (({x} == {best}) & {earlier})) & ~{nan_best})"
        f" | ({nan_x} & (~{nan_best} | {earlier}))"
        if a.width > 1
        else f"((({x} {order} {best}) || ({x} == {best} && {earlier})) && !{nan_best})"
        f" || ({nan_x} && (!{nan_best} || {earlier}))"
    )


def folded_lanes(
    a: Accumulator, scalar: Accumulator, device: DeviceInfo, array: str
) -> list[Statement]:
    """Statements that combine every lane of ``a`` into ``scalar``."""
    if a.is_position or a.dtype is torch.bool:
        kind, place = register_type(a.dtype, 1), a.position_type
        found: list[Statement] = [
            Array(kind, array, (a.width,)),
            CallStatement(f"vstore{a.width}({a.name}, 0, {array})"),
        ]
        element = f"{array}[l]"
        if a.dtype is torch.bool:
            element = f"({element} != 0)"
        if a.is_position:
            found += [
                Array(place, f"{array}_at", (a.width,)),
                CallStatement(f"vstore{a.width}({a.name}_at, 0, {array}_at)"),
            ]
        body = (Accumulate(scalar, element, f"{array}_at[l]"),)
        return [*found, For("int", "l", LoopBound.of(0), LoopBound.of(a.width), body)]
    halves: list[Statement] = []
    name, width = a.name, a.width
    while width > 1:
        width //= 2
        half = f"{array}_{width}"
        text = combine_text(a.how, EmitTarget(width, device), a.dtype, f"{name}.lo", f"{name}.hi")
        halves.append(Let(register_type(a.dtype, width), half, text))
        name = half
    return [*halves, Accumulate(scalar, name)]
