"""Selections between values of which both can be computed: as few operations as possible."""

from __future__ import annotations

from ocl_inductor.ir.expr import Expr, where
from ocl_inductor.ir.ops import PRIMITIVES

_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def selected(condition: Expr, value: Expr, other: Expr) -> Expr:
    """``value`` where ``condition`` holds, else ``other``.

    What both compute alike of different operands is computed once, of the selected operand: the two
    numbers in a byte are selected as bytes, and one is converted and scaled.
    """
    if other.op == "masked" and _are_opposite(condition, other.args[0]):
        other = other.args[1]
    if value is other:
        return value
    differ = [n for n, (a, b) in enumerate(zip(value.args, other.args, strict=False)) if a != b]
    if len(differ) != 1 or not _alike(value, other):
        return where(condition, value, other)
    (n,) = differ
    chosen = selected(condition, value.args[n], other.args[n])
    return Expr(value.op, (*value.args[:n], chosen, *value.args[n + 1 :]), value.dtype)


def _alike(a: Expr, b: Expr) -> bool:
    """Whether the same function of operands of the same types, which is computed lane by lane."""
    row = PRIMITIVES.get(a.op)
    return (
        row is not None
        and not row.scalars
        and (a.op, a.dtype, a.payload) == (b.op, b.dtype, b.payload)
        and [x.dtype for x in a.args] == [x.dtype for x in b.args]
    )


def _are_opposite(a: Expr, b: Expr) -> bool:
    return _OPPOSITE.get(a.op) == b.op and a.args == b.args
