"""Turn a group's static sizes into arguments, so that groups of one form share one program.

Packing a weight runs once for each parameter; building a program for each shape of weight would
take longer than all the packing. The generic form is compiled as for dynamic shapes.
"""

from __future__ import annotations

import dataclasses

import sympy

from ocl_inductor.ir.expr import Expr, index_value, map_indices, rewrite
from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.schedule.groups import LoopGroup, Member


class Generaliser:
    """Replaces each distinct integer above 1 by a size symbol; ``values`` maps them back."""

    def __init__(self) -> None:
        self.symbols: dict[int, sympy.Symbol] = {}

    @property
    def values(self) -> dict[sympy.Symbol, sympy.Integer]:
        return {s: sympy.Integer(n) for n, s in self.symbols.items()}

    def symbol(self, n: int) -> sympy.Symbol:
        if n not in self.symbols:
            name = f"dim{len(self.symbols)}"
            self.symbols[n] = sympy.Symbol(name, integer=True, positive=True)
        return self.symbols[n]

    def size(self, size: Size) -> Size:
        return self.symbol(int(size)) if is_static(size) and int(size) > 1 else size

    def index(self, e: sympy.Expr) -> sympy.Expr:
        integers = sorted(e.atoms(sympy.Integer), key=int)
        mapping: dict[sympy.Basic, sympy.Expr] = {}
        for n in integers:
            if abs(int(n)) > 1:
                s = self.symbol(abs(int(n)))
                mapping[n] = s if int(n) > 0 else -s
        return e.xreplace(mapping)

    def body(self, e: Expr) -> Expr:
        def constants(node: Expr) -> Expr | None:
            integral = node.op == "const" and isinstance(node.payload, int)
            if integral and node.payload > 1 and not isinstance(node.payload, bool):
                return index_value(self.symbol(node.payload), node.dtype)
            return None

        return rewrite(map_indices(e, self.index), constants)

    def member(self, m: Member) -> Member:
        return dataclasses.replace(
            m,
            body=self.body(m.body),
            store=self.index(m.store),
            store_indirect=tuple(self.body(e) for e in m.store_indirect),
        )


def generalise(group: LoopGroup) -> tuple[LoopGroup, dict[sympy.Symbol, sympy.Integer]]:
    """The group over size symbols, and the values that make it this group again."""
    g = Generaliser()
    # Sizes first, so that symbols are numbered alike in groups of one form.
    outer, inner = tuple(map(g.size, group.outer)), tuple(map(g.size, group.inner))
    members = tuple(g.member(m) for m in group.members)
    return dataclasses.replace(group, outer=outer, inner=inner, members=members), g.values
