"""Elements that lie in pairs, read and written as vectors.

Lanes that read or write every second element need an instruction each. Where a kernel touches both
elements of each pair, as the parts of a complex number or the two channels of stereo sound, it
reads twice as many elements at once and takes the even and the odd ones apart, and stores two
registers interleaved. Complex products of 2 x 1024 x 32 x 64 numbers: one load or store in place of
eight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sympy
import torch

from ocl_inductor.codegen.statements.indexing import lane_stride
from ocl_inductor.ir.expr import Expr, loads
from ocl_inductor.schedule.groups import Member

#: The same in memory and in registers.
_DTYPES = (torch.float32, torch.float64)
#: Of a scope's key for the vectors that were loaded; no operation of a loop body.
WHOLE_PAIRS = "pairs"
#: OpenCL's longest vector.
MOST_LANES = 16


@dataclass(frozen=True, slots=True)
class Adjacent:
    """``loads``: each load with its pair's first one, and whether it is the second; ``stores``: the
    buffer of the member that is stored second, with the first one's."""

    loads: Mapping[Expr, tuple[Expr, bool]] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)


def adjacent_indices(members: Sequence[Member]) -> frozenset[sympy.Expr]:
    """Indices that a kernel accesses together with the next or the previous one."""
    read = _loads(members)
    both = {i for buffer, index in read if (buffer, index + 1) in read for i in (index, index + 1)}
    stores = _stores(members)
    by_name = {m.buffer.name: m for m in members}
    both |= {by_name[name].store for pair in stores.items() for name in pair}
    return frozenset(both)


def find_adjacent(members: Sequence[Member], v: sympy.Symbol, width: int) -> Adjacent:
    """The pairs of a kernel whose ``width`` lanes run along ``v``."""

    def steps_over_one(index: sympy.Expr) -> bool:
        split = lane_stride(index, v, width)
        return split is not None and split[1] == 2

    read = {k: e for k, e in _loads(members).items() if steps_over_one(e.payload.index)}
    paired: dict[Expr, tuple[Expr, bool]] = {}
    for (buffer, index), first in read.items():
        second = read.get((buffer, index + 1))
        if second is not None and first not in paired and second not in paired:
            paired |= {first: (first, False), second: (first, True)}
    by_name = {m.buffer.name: m for m in members}
    stores = {k: n for k, n in _stores(members).items() if steps_over_one(by_name[k].store)}
    return Adjacent(paired, stores)


def _loads(members: Sequence[Member]) -> dict[tuple[str, sympy.Expr], Expr]:
    """What a kernel reads of other memory wherever it computes anything, by buffer and index."""
    own = {m.buffer.name for m in members}
    return {
        (e.payload.buffer, e.payload.index): e
        for m in members
        for e in _always_read(m.body)
        if e.dtype in _DTYPES and not e.args and e.payload.buffer not in own
    }


def _stores(members: Sequence[Member]) -> dict[str, str]:
    """Members that store next to what the one stores whose buffer they continue."""
    roots = (root for m in members for root in (m.body, *m.store_indirect))
    read = {e.payload.buffer for root in roots for e in loads(root)}
    by_name = {m.buffer.name: m for m in members}
    return {
        m.buffer.name: m.base
        for m in members
        if (first := by_name.get(m.base)) is not None
        and _is_plain(m)
        and _is_plain(first)
        and not first.base
        and m.level == first.level
        and m.store == first.store + 1
        and read.isdisjoint((m.buffer.name, m.base))
    }


def _is_plain(m: Member) -> bool:
    return m.kind == "pointwise" and not m.row and m.buffer.dtype in _DTYPES


def _always_read(root: Expr) -> Iterator[Expr]:
    """The loads that no condition guards: elsewhere the other element may not exist."""
    stack, seen = [root], set()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e.op == "load":
            yield e
        stack += (e.args[0], e.args[2]) if e.op == "masked" else e.args


def interleaved(a: str, b: str, width: int) -> list[str]:
    """The elements of two registers in turn, as lists for vectors of at most 16."""
    lanes = "0123456789abcdef"
    elements = [f"{x}.s{lanes[n]}" for n in range(width) for x in (a, b)]
    return [", ".join(elements[n : n + MOST_LANES]) for n in range(0, len(elements), MOST_LANES)]
