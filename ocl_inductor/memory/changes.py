"""Kernels that update a part of an input in place: loops over that part only.

``cache[:, 7:8] = new`` reaches the scheduler as a value of the whole cache: the new elements there,
the old ones elsewhere. In a separate buffer all of it has to be written; in place over the old ones
(updates.py), only the part changes. ``cache.index_copy_(0, positions, new)`` is a copy of the whole
cache and a scatter into it: the copy is dropped completely.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import TypeAlias

import sympy

from ocl_inductor.ir.expr import Expr, map_indices, substitute
from ocl_inductor.ir.index import Size, is_static, same, simplify
from ocl_inductor.schedule.fusion_group import live_members
from ocl_inductor.schedule.groups import Group, LoopGroup, Member, Schedule

#: Range of each loop variable: its first value, and one past its last.
Bounds: TypeAlias = Mapping[sympy.Symbol, tuple[int, Size]]


def only_changes(schedule: Schedule, updated: Mapping[str, str]) -> Schedule:
    """``schedule`` with smaller loops where ``updated`` (buffer to input) allows.

    A group that only copied old elements goes. Those of a combo kernel keep their loops, which have
    to be of one size.
    """
    together = {n for batch in schedule.batches for n in batch}
    groups = list(schedule.groups)
    for n, group in enumerate(groups):
        if isinstance(group, LoopGroup):
            group = _without_copies(group, updated)
            groups[n] = group if n in together else _smaller(group, updated)
    return _without_idle(dataclasses.replace(schedule, groups=tuple(groups)))


def _without_idle(schedule: Schedule) -> Schedule:
    """``schedule`` without loops over nothing, and its batches where their groups are then."""
    busy = [not isinstance(g, LoopGroup) or bool(g.members) for g in schedule.groups]
    place = (0, *itertools.accumulate(busy))
    moved = (range(place[b.start], place[b.stop]) for b in schedule.batches)
    return dataclasses.replace(
        schedule,
        groups=tuple(itertools.compress(schedule.groups, busy)),
        batches=tuple(b for b in moved if len(b) > 1),
    )


def _without_copies(group: LoopGroup, updated: Mapping[str, str]) -> LoopGroup:
    """``group`` without members that store the old elements in their own place."""
    copies = {
        m.buffer.name
        for m in group.members
        if m.kind == "pointwise"
        and not m.base
        and not m.store_indirect
        and _is_old(m.body, updated.get(m.buffer.name), m.store, _whole(group))
    }
    if not copies:
        return group
    stored = group.stored - copies
    return dataclasses.replace(group, members=live_members(group.members, stored), stored=stored)


def _smaller(group: LoopGroup, updated: Mapping[str, str]) -> Group:
    written = [m for m in group.members if m.buffer.name in group.stored]
    if group.inner or len(written) != 1 or any(m.base or m.store_indirect for m in group.members):
        return group
    (member,) = written
    own = updated.get(member.buffer.name)
    if own is None:
        return group
    new, part = member.body, _whole(group)
    while new.op in ("masked", "where") and _is_old(new.args[2], own, member.store, part):
        smaller = _within(new.args[0], part)
        if smaller is None:
            break
        new, part = new.args[1], smaller
    if part == _whole(group) or any(same(low, high) for low, high in part.values()):
        return group
    return _over(part, group, dataclasses.replace(member, body=new))


def _whole(group: LoopGroup) -> Bounds:
    return {v: (0, n) for v, n in group.var_ranges.items()}


def _is_old(value: Expr, own: str | None, store: sympy.Expr, part: Bounds) -> bool:
    """Whether ``value`` equals, over ``part``, the elements of ``own`` that it overwrites."""
    if value.op != "load" or value.args or value.payload.buffer != own:
        return False
    single = {v: low for v, (low, high) in part.items() if same(high - low, 1)}
    return bool(sympy.expand((value.payload.index - store).xreplace(single)) == 0)


def _within(condition: Expr, part: Bounds) -> Bounds | None:
    """Where in ``part`` a condition holds; None: not expressible as a range of each variable."""
    if condition.op == "logical_and":
        left = _within(condition.args[0], part)
        return None if left is None else _within(condition.args[1], left)
    if condition.op not in ("ge", "lt") or [x.op for x in condition.args] != ["index", "const"]:
        return None
    position, limit = (x.payload for x in condition.args)
    variables = position.free_symbols & part.keys()
    if len(variables) != 1:
        return None
    (v,) = variables
    at, (low, high) = limit - (position - v), part[v]
    if not is_static(at) or not is_static(high):
        return None
    if condition.op == "ge":
        low = min(max(low, int(at)), int(high))
    else:
        high = max(min(int(high), int(at)), low)
    return {**part, v: (low, high)}


def _over(part: Bounds, group: LoopGroup, written: Member) -> LoopGroup:
    """``group`` with loops over ``part`` of its space, and ``written`` for its stored member."""
    moved = {v: v + low for v, (low, _) in part.items() if low}
    ranges = {v: high - low for v, (low, high) in part.items()}

    def tidy(index: sympy.Expr) -> sympy.Expr:
        return simplify(sympy.expand(index), ranges)

    def over_part(m: Member) -> Member:
        m = written if m.buffer.name == written.buffer.name else m
        body = map_indices(substitute(m.body, moved), tidy)
        return dataclasses.replace(m, body=body, store=tidy(m.store.xreplace(moved)))

    outer = tuple(ranges[v] for v in group.outer_vars)
    return dataclasses.replace(group, outer=outer, members=tuple(map(over_part, group.members)))
