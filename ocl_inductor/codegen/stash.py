"""Which values of a row are kept from one sweep for the next, instead of computed again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sympy

from ocl_inductor.ir.expr import EXPENSIVE, RANDOM_BITS, Expr, indices, walk
from ocl_inductor.schedule.groups import Member

#: A stashed row must leave the first-level cache room for what the kernel reads.
MAX_STASHED_ROW = 4096
MAX_STASHED_VALUES = 2


def shared_between(
    levels: Sequence[Sequence[Member]],
    every: Mapping[str, Member],
    stored: Collection[str],
    inner: set[sympy.Symbol],
) -> list[Expr]:
    """Outermost expensive expressions that depend on the sweep and occur in several ``levels``.

    ``every``: the kernel's members by name; those ``stored`` are in memory. ``inner``: variables of
    the sweep.
    """
    seen_at: dict[Expr, set[int]] = {}

    def visit(e: Expr, level: int) -> None:
        if e.op == "masked":
            return  # evaluated under a condition: not for every element
        m = every.get(e.payload.buffer) if e.op == "load" else None
        if m is not None:
            if m.kind == "pointwise" and not m.row and m.buffer.name not in stored:
                visit(m.body, level)
            return
        if e.op in EXPENSIVE and (e.dtype.is_floating_point or e.op in RANDOM_BITS):
            symbols = {s for i in indices(e) for s in i.free_symbols}
            if symbols & inner:
                found = seen_at.setdefault(e, set())
                found.add(level)
                if len(found) > 1:
                    return
        for a in e.args:
            visit(a, level)

    for level, members in enumerate(levels):
        for m in members:
            visit(m.body, level)
    shared = [e for e, found in seen_at.items() if len(found) > 1]
    inside = {a for e in shared for x in e.args for a in walk(x)}
    return [e for e in shared if e not in inside][:MAX_STASHED_VALUES]
