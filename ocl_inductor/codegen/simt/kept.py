"""Elements of a row that a work-item of a GPU keeps in registers between sweeps.

``softmax`` reads its row three times. Where each item takes a few elements of a row, their operands
are read once: loops over them have a known trip count, and are unrolled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy

from ocl_inductor.codegen.simt.groups import Shape
from ocl_inductor.codegen.statements.emitted import Text
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.tree.nodes import Array, Statement
from ocl_inductor.ir.dtypes import register_type
from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.schedule.groups import Member

#: Iterations of an unrolled loop, tensors kept, and work-items of a group with registers for them.
MAX_ROUNDS, MAX_KEPT, MAX_ITEMS = 4, 2, 512
#: 32-bit registers for kept elements.
MAX_WORDS = 32


@dataclass(slots=True)
class Kept:
    """Arrays of a work-item with an element, or a vector, of each iteration, by the load.

    ``rounds``: iterations of every sweep; 0: loops are not unrolled, and nothing is kept.
    ``filled``: arrays that an earlier sweep has filled.
    """

    rounds: int = 0
    arrays: dict[Expr, str] = field(default_factory=dict)
    filled: set[Expr] = field(default_factory=set)

    def declarations(self, width: int) -> list[Statement]:
        """At the beginning of a row."""
        return [
            Array(register_type(e.dtype, width), name, (self.rounds,))
            for e, name in self.arrays.items()
        ]

    def use(self, writer: Emitter, wanted: Sequence[Expr]) -> None:
        """At the beginning of iteration ``k``: fill the arrays of ``wanted``, or read from them."""
        for e in wanted:
            if e not in self.arrays:
                continue
            place = f"{self.arrays[e]}[k]"
            if e in self.filled:
                name = writer.fresh("x")
                writer.let(register_type(e.dtype, writer.width), name, place)
                writer.scopes[-1].known[e] = Text(name, writer.width > 1)
            else:
                writer.assign(place, writer.vectorised(e))
                self.filled.add(e)


def kept_rows(
    levels: Sequence[Sequence[Member]],
    every: Mapping[str, Member],
    stored: frozenset[str],
    inner: Sequence[sympy.Symbol],
    steps: Size,
    shape: Shape,
) -> Kept:
    """The loads to keep of a row of ``steps``; ``levels``: the members of each sweep."""
    if not is_static(steps) or int(steps) % shape.down or shape.items > MAX_ITEMS:
        return Kept()
    rounds = int(steps) // shape.down
    if rounds > MAX_ROUNDS:
        return Kept()
    times: dict[Expr, int] = {}
    for members in levels:
        for e in swept_loads(members, every, stored, inner):
            times[e] = times.get(e, 0) + 1
    words = rounds * shape.lanes.width
    most = min(MAX_KEPT, MAX_WORDS // words)
    again = [e for e, n in times.items() if n > 1 and e.dtype.itemsize <= 4][:most]
    if not again:
        return Kept()
    return Kept(rounds, {e: f"kept{n}" for n, e in enumerate(again)})


def swept_loads(
    members: Sequence[Member],
    every: Mapping[str, Member],
    stored: frozenset[str],
    inner: Sequence[sympy.Symbol],
) -> list[Expr]:
    """Direct loads of other kernels' results that every step of a sweep makes."""
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    stack = [m.body for m in reversed(members)]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e.op == "load":
            m = every.get(e.payload.buffer)
            if m is None and not e.args and e.payload.index.free_symbols & set(inner):
                found[e] = None
            if (
                m is not None
                and m.kind == "pointwise"
                and not m.row
                and m.buffer.name not in stored
            ):
                stack.append(m.body)
        else:
            stack += reversed(e.args[:1] if e.op == "masked" else e.args)
    return list(found)
