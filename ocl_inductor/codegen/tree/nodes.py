"""The statements of a kernel.

Expressions are C text. What passes and checks look at stands beside the text, as expressions over
index variables: the elements that a statement reads or stores, and the values that variables and
bounds of loops have. A variable is the symbol of its own name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import sympy
import torch


def variable(name: str) -> sympy.Symbol:
    """The index variable of this name."""
    return sympy.Symbol(name, integer=True)


def item_id(dimension: int) -> sympy.Symbol:
    """``get_global_id(dimension)``"""
    return sympy.Symbol(f"get_global_id({dimension})", integer=True, nonnegative=True)


#: ``get_local_id(0)`` and ``get_group_id(0)``: of kernels whose work-items share something.
LOCAL_ID = sympy.Symbol("get_local_id(0)", integer=True, nonnegative=True)
GROUP_ID = sympy.Symbol("get_group_id(0)", integer=True, nonnegative=True)


@dataclass(frozen=True, slots=True)
class Elements:
    """``lanes`` consecutive elements of a buffer from ``first`` on; None: data decides.

    ``over``: instead, lane ``n`` is ``first`` with ``over + n`` for ``over``.
    """

    buffer: str
    first: sympy.Expr | None
    itemsize: int
    lanes: int = 1
    over: sympy.Symbol | None = None


@dataclass(frozen=True, slots=True)
class Let:
    """``const kind name = value;``

    ``reads``: what ``value`` reads of memory. ``index``: its value, of an index variable.
    """

    kind: str
    name: str
    value: str
    reads: tuple[Elements, ...] = ()
    index: sympy.Expr | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """``kind name = value;``, or without a value; ``index``: what it starts with, of an index."""

    kind: str
    name: str
    value: str = ""
    index: sympy.Expr | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """``space kind name[extents];``"""

    kind: str
    name: str
    extents: tuple[int, ...]
    space: str = ""


@dataclass(frozen=True, slots=True)
class Assign:
    """``target = value;``"""

    target: str
    value: str
    reads: tuple[Elements, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """``width`` neighbouring elements of a buffer get the lanes of ``value``.

    ``at``: C text of the first one's index; ``first``: the same as an expression, None where data
    decides. ``lane``: a lane number and the variable of lanes, to which it is to be added in
    ``first``. ``streamed``: past the caches (passes/nontemporal.py).
    """

    buffer: str
    dtype: torch.dtype
    at: str
    value: str
    first: sympy.Expr | None = None
    width: int = 1
    aligned: bool = False
    lane: tuple[sympy.Symbol, int] | None = None
    streamed: bool = False
    space: str = "__global"


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A reduction's state in ``width`` lanes: one variable, or value and position for argmax.

    ``how``: ``sum``, ``max``, ``argmax`` and so on; ``position_type``: of a position.
    """

    name: str
    how: str
    dtype: torch.dtype
    width: int
    position_type: str = "long"

    @property
    def is_position(self) -> bool:
        return self.how in ("argmax", "argmin")

    @property
    def result(self) -> str:
        """The variable that has what was asked for."""
        return f"{self.name}_at" if self.is_position else self.name


@dataclass(frozen=True, slots=True)
class Accumulate:
    """``value``, a register as wide as ``into``, is combined with what ``into`` has.

    For passes: statements/accumulators.py writes it out before anything is printed.
    ``position``: of the value, where that is what the accumulator is for.
    """

    into: Accumulator
    value: str
    position: str = ""


@dataclass(frozen=True, slots=True)
class CallStatement:
    """``text;``: a function that is called for its effect."""

    text: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Where the work-items of a group wait for each other's stores to local memory."""


@dataclass(frozen=True, slots=True)
class IndexComparison:
    """``left sign right`` of index variables; ``sign``: one of ``<``, ``==``, ``>``."""

    left: sympy.Expr
    sign: str
    right: sympy.Expr


@dataclass(frozen=True, slots=True)
class BlockStatement:
    """``{ body }``"""

    body: tuple[Statement, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """``if (condition) { body }``, or ``else if`` directly behind another one.

    ``comparisons``: of which the condition is the conjunction; empty: data decides.
    """

    condition: str
    body: tuple[Statement, ...]
    comparisons: tuple[IndexComparison, ...] = ()
    otherwise: bool = False


def all_hold(*comparisons: IndexComparison) -> If:
    """The condition that comparisons of variables and numbers hold, for a body to come."""
    text = " && ".join(f"{c.left} {c.sign} {c.right}" for c in comparisons)
    return If(text, (), comparisons)


@dataclass(frozen=True, slots=True)
class LoopBound:
    """The beginning or the end of a loop, or an extent: its text and its value."""

    text: str
    value: sympy.Expr

    @classmethod
    def of(cls, number: int) -> LoopBound:
        return cls(str(number), sympy.Integer(number))

    @classmethod
    def named(cls, name: str) -> LoopBound:
        """The bound in a variable."""
        return cls(name, variable(name))


def all_below(*limits: tuple[str, LoopBound]) -> If:
    """The condition that each variable is less than its limit, for a body to come."""
    text = " && ".join(f"{name} < {end.text}" for name, end in limits)
    return If(text, (), tuple(IndexComparison(variable(n), "<", end.value) for n, end in limits))


@dataclass(frozen=True, slots=True)
class For:
    """``for (kind variable = begin; variable + room <= end; variable += step) { body }``

    ``begin`` None: the variable exists, and goes on from where it is.
    """

    kind: str
    variable: str
    begin: LoopBound | None
    end: LoopBound
    body: tuple[Statement, ...] = ()
    step: int = 1
    room: int = 1
    pragma: str = ""


@dataclass(frozen=True, slots=True)
class Doubling:
    """``for (int variable = 1; variable < end; variable *= 2) { body }``"""

    variable: str
    end: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class CountOn:
    """The row-major coordinates ``variables`` of a position become those of the next one.

    ``extents``: how many values each but the outermost has.
    """

    variables: tuple[str, ...]
    extents: tuple[LoopBound, ...]


Statement: TypeAlias = (
    Let
    | Variable
    | Array
    | Assign
    | Store
    | Accumulate
    | CallStatement
    | Barrier
    | BlockStatement
    | If
    | For
    | Doubling
    | CountOn
)
