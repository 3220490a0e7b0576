"""Where a kernel's vector lanes run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy

from ocl_inductor.codegen.statements.adjacent import adjacent_indices
from ocl_inductor.codegen.work import usual_size
from ocl_inductor.ir.expr import indices, loads
from ocl_inductor.ir.index import Size, coefficients, is_static, prod
from ocl_inductor.schedule.groups import LoopGroup, Member


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where vector lanes run: a variable of the group (None: scalar code) and their number."""

    var: sympy.Symbol | None
    width: int
    over_sweep: bool


def choose_lanes(
    group: LoopGroup,
    outer: Sequence[sympy.Symbol],
    inner: Sequence[sympy.Symbol],
    size_of: Mapping[sympy.Symbol, Size],
    device_width: int,
) -> Lanes:
    """The variable along which most accesses are contiguous.

    ``outer`` and ``inner``: variables of the group's points and of its sweep, outermost first.
    """
    scalar = Lanes(None, 1, False)
    candidates = [v for v in outer if all(_side_by_side(m, v, group) for m in group.members)]
    swept_kinds = {m.kind for m in group.members if not m.row}
    if inner and "scan" not in swept_kinds and "scatter" not in swept_kinds:
        candidates.append(inner[-1])
    best, best_score = scalar, 0.0
    for v in candidates:
        size = size_of[v]
        width = device_width
        if is_static(size):
            while width > 1 and width > int(size):
                width //= 2
        if width == 1:
            continue
        score = contiguity(group, v) * (width / device_width) ** 0.5
        if v in inner:
            score *= 1.01  # if both are contiguous, prefer the variable that reads a row once
        elif v == (*outer, *inner)[-1]:
            score *= 1.005
        if score > best_score:
            best, best_score = Lanes(v, width, v in inner), score
    return best


def _side_by_side(m: Member, v: sympy.Symbol, group: LoopGroup) -> bool:
    """Whether a vector of points along ``v`` scatters to consecutive elements, if it scatters.

    Then the vector is loaded, updated and stored as a whole: points of a group never write the same
    element.
    """
    if not once_only(m):
        return True
    affine = coefficients(m.store, [v])
    if affine is None or affine[0][v] != 1 or v in affine[1].free_symbols:
        return False
    computed = {other.buffer.name for other in group.members}
    read = {n.payload.buffer for e in m.store_indirect for n in loads(e)}
    used = {x for e in m.store_indirect for i in indices(e) for x in i.free_symbols}
    return computed.isdisjoint(read) and v not in used


def once_only(m: Member) -> bool:
    """Whether computing a point twice may change its result (not idempotent)."""
    return m.kind == "scatter" and (m.how != "set" or bool(m.store_indirect))


def contiguity(group: LoopGroup, v: sympy.Symbol) -> float:
    """How well lanes along ``v`` suit the accesses: 1 contiguous, 0.6 same, 0.15 gather; 0.9 where
    every gather is one of two adjacent ones (adjacent.py), as those of complex numbers are.

    Each is weighted by its count in a sweep, so that an access made once for a whole row does not
    outweigh the row.
    """
    sweep = usual_size(prod(list(group.inner)))
    score = 0.0
    adjacent = adjacent_indices(group.members)
    strided: list[tuple[float, bool]] = []
    for m in group.members:
        once = 1.0 / max(1, sweep) if m.row else 1.0
        accesses = [(e, once) for e in indices(m.body)]
        for e in m.store_indirect:
            accesses += [(i, once) for i in indices(e)]
        if m.buffer.name in group.stored and m.kind != "reduction":
            accesses.append((m.store, 1.5 * once))
        for e, weight in accesses:
            affine = coefficients(e, [v])
            if v not in e.free_symbols:
                score += 0.6 * weight
            elif affine is None or v in affine[1].free_symbols:
                score += 0.5 * weight  # a division whose quotient is often constant over a vector
            elif affine[0][v] == 1:
                score += weight
            else:
                strided.append((weight, affine[0][v] == 2 and e in adjacent))
    each = 0.9 if all(pair for _, pair in strided) else 0.15
    return score + each * sum(weight for weight, _ in strided)
