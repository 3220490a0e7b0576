"""The state of an emitter: texts of values, blocks, results, cached rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy
import torch

from ocl_inductor.codegen.tree.nodes import Elements, Statement
from ocl_inductor.ir.expr import Expr


@dataclass(frozen=True, slots=True)
class Text:
    """C text of a value: a register of the emitter's width, or one scalar for all lanes.

    ``reads``: the elements of memory that the text reads itself.
    """

    text: str
    lanes: bool
    reads: tuple[Elements, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldResult:
    """A buffer of this kernel whose value is in a variable: a reduction's, or a template's."""

    value: Text
    dtype: torch.dtype


@dataclass(slots=True)
class Scope:
    """A C block being emitted: the loop variables it defines and the values it has computed."""

    variables: frozenset[sympy.Symbol]
    statements: list[Statement] = field(default_factory=list)
    known: dict[Expr, Text] = field(default_factory=dict)
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class RowCache:
    """A private array with an element for each point of a row's sweep.

    Filled by the first sweep that computes the value, ``ready`` for the sweeps after it.
    """

    name: str
    dtype: torch.dtype
    index: str
    filled: bool = False
    ready: bool = False
