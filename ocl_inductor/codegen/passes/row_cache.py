"""Which values of a row are cached between sweeps, instead of recomputed or read again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sympy

from ocl_inductor.ir.expr import Expr, indices, walk
from ocl_inductor.ir.ops import EXPENSIVE, RANDOM_BITS
from ocl_inductor.schedule.groups import Member

#: A cached row must leave room in the first-level cache for what the kernel reads.
MAX_STASHED_ROW = 4096
MAX_STASHED_VALUES = 2
#: For a value computed from so many vectors, one store and one load are cheaper than reading them
#: again: ``softmax(layer_norm(x))``, with the row, weight and bias, goes from 0.80 to 0.69 ms.
LEAST_LOADS = 3


def shared_between(
    levels: Sequence[Sequence[Member]],
    every: Mapping[str, Member],
    stored: Collection[str],
    inner: set[sympy.Symbol],
) -> list[Expr]:
    """Values that depend on the sweep, occur in several ``levels``, and are worth caching.

    Those are the outermost expressions that are expensive, or read ``LEAST_LOADS`` vectors.
    ``every``: the kernel's members by name; those ``stored`` are in memory. ``inner``: variables of
    the sweep.
    """
    seen_at: dict[Expr, set[int]] = {}
    swept_loads: dict[Expr, frozenset[Expr]] = {}

    def loads_of(e: Expr) -> frozenset[Expr]:
        """The distinct vectors it reads; under a condition, none."""
        if e not in swept_loads:
            found = frozenset().union(*map(loads_of, e.args)) if e.op != "masked" else frozenset()
            swept_loads[e] = found | {e} if e.op == "load" and _swept(e, inner) else found
        return swept_loads[e]

    def worth_keeping(e: Expr) -> bool:
        if e.op in EXPENSIVE and (e.dtype.is_floating_point or e.op in RANDOM_BITS):
            return _swept(e, inner)
        return e.dtype.is_floating_point and len(loads_of(e)) >= LEAST_LOADS

    visited: set[tuple[Expr, int]] = set()

    def visit(e: Expr, level: int) -> None:
        if e.op == "masked" or (e, level) in visited:
            return  # what is evaluated under a condition is not for every element
        visited.add((e, level))
        m = every.get(e.payload.buffer) if e.op == "load" else None
        if m is not None:
            if m.kind == "pointwise" and not m.row and m.buffer.name not in stored:
                visit(m.body, level)
            return
        if worth_keeping(e):
            found = seen_at.setdefault(e, set())
            found.add(level)
            if len(found) > 1:
                return
        for a in e.args:
            visit(a, level)

    for level, members in enumerate(levels):
        for m in members:
            visit(m.body, level)
    first = {e: min(found) for e, found in seen_at.items() if len(found) > 1}
    inside = {e: {a for x in e.args for a in walk(x)} for e in first}
    # A value used only to compute another one that is cached from then on is not cached itself.
    kept = (e for e in first if not any(e in inside[f] and first[f] <= first[e] for f in first))
    return list(kept)[:MAX_STASHED_VALUES]


def _swept(e: Expr, inner: set[sympy.Symbol]) -> bool:
    return any(i.free_symbols & inner for i in indices(e))
