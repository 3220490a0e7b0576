"""Accumulators of reductions and scans: initial value, update, and final result."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ocl_inductor.codegen.printers.conversions import literal
from ocl_inductor.codegen.printers.forms import EmitTarget
from ocl_inductor.codegen.printers.primitives import emit_primitive
from ocl_inductor.codegen.tree.nodes import (
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


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A reduction's state in ``width`` lanes: one variable, or value and position for argmax."""

    name: str
    how: str
    dtype: torch.dtype
    width: int
    position_type: str = "long"

    @property
    def is_position(self) -> bool:
        return self.how in ("argmax", "argmin")

    def declare(self) -> list[Statement]:
        kind = register_type(self.dtype, self.width)
        start = literal(identity(self.how, self.dtype), self.dtype, self.width)
        found: list[Statement] = [Variable(kind, self.name, start)]
        if self.is_position:
            # No element seen yet: any real position is smaller, so ties with the start value
            # (a row of -inf) still end at the first element.
            far = "INT_MAX" if self.position_type == "int" else "LONG_MAX"
            position = vector(self.position_type, self.width)
            found.append(Variable(position, f"{self.name}_at", f"({position})({far})"))
        return found

    def take(self, target: EmitTarget, value: str, position: str = "") -> list[Statement]:
        """Statements that accumulate ``value`` (a register of this width)."""
        if not self.is_position:
            text = combine_text(self.how, target, self.dtype, self.name, value)
            return [Assign(self.name, text)]
        better = self._better(value, self.name, position, f"{self.name}_at")
        if self.width == 1:
            both = Assign(self.name, value), Assign(f"{self.name}_at", position)
            return [If(better, both)]
        value_mask = mask_type(self.dtype, self.width)
        place_mask = vector(self.position_type, self.width)
        flag = f"{self.name}_better"
        at, far = f"{self.name}_at", f"convert_{place_mask}({flag})"
        selected = (
            Let(value_mask, flag, better),
            Assign(self.name, f"select({self.name}, {value}, {flag})"),
            Assign(at, f"select({at}, {position}, {far})"),
        )
        return [BlockStatement(selected)]

    def _better(self, x: str, best: str, at: str, best_at: str) -> str:
        """Whether ``x`` at ``at`` beats the best so far: NaN beats all, then order, then first."""
        order = ">" if self.how == "argmax" else "<"
        earlier = f"({at} < {best_at})"
        if self.width > 1:
            earlier = f"convert_{mask_type(self.dtype, self.width)}{earlier}"
        if not self.dtype.is_floating_point:
            return f"({x} {order} {best}) | (({x} == {best}) & {earlier})"
        nan_x, nan_best = f"({x} != {x})", f"({best} != {best})"
        return (
            f"((({x} {order} {best}) | (({x} == {best}) & {earlier})) & ~{nan_best})"
            f" | ({nan_x} & (~{nan_best} | {earlier}))"
            if self.width > 1
            else f"((({x} {order} {best}) || ({x} == {best} && {earlier})) && !{nan_best})"
            f" || ({nan_x} && (!{nan_best} || {earlier}))"
        )

    def fold_lanes(self, scalar: Accumulator, target: EmitTarget, array: str) -> list[Statement]:
        """Statements that combine every lane of this accumulator into ``scalar``."""
        if self.is_position or self.dtype is torch.bool:
            kind, place = register_type(self.dtype, 1), self.position_type
            found: list[Statement] = [
                Array(kind, array, (self.width,)),
                CallStatement(f"vstore{self.width}({self.name}, 0, {array})"),
            ]
            element = f"{array}[l]"
            if self.dtype is torch.bool:
                element = f"({element} != 0)"
            if self.is_position:
                found += [
                    Array(place, f"{array}_at", (self.width,)),
                    CallStatement(f"vstore{self.width}({self.name}_at, 0, {array}_at)"),
                ]
            body = tuple(scalar.take(target, element, f"{array}_at[l]"))
            return [*found, For("int", "l", LoopBound.of(0), LoopBound.of(self.width), body)]
        halves: list[Statement] = []
        name, width = self.name, self.width
        while width > 1:
            width //= 2
            half = f"{array}_{width}"
            text = combine_text(
                self.how, EmitTarget(width, target.device), self.dtype, f"{name}.lo", f"{name}.hi"
            )
            halves.append(Let(register_type(self.dtype, width), half, text))
            name = half
        return halves + scalar.take(target, name)

    @property
    def result(self) -> str:
        return f"{self.name}_at" if self.is_position else self.name
