"""Merge adjacent dimensions of a group that every access indexes as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import sympy

from ocl_inductor.ir.expr import indices, map_indices, substitute
from ocl_inductor.ir.index import Size, coefficients, loop_vars, prod
from ocl_inductor.schedule.groups import LoopGroup


def merge_dimensions(group: LoopGroup) -> LoopGroup:
    """Fewer, longer dimensions: fewer divisions per row and longer vector runs."""
    outer, inner = list(group.outer), list(group.inner)
    members = group.members
    changed = True
    while changed:
        changed = False
        sizes = outer + inner
        variables = loop_vars(len(sizes))
        accesses: set[sympy.Expr] = set()
        for m in members:
            accesses |= set(indices(m.body)) | {m.store}
            for e in m.store_indirect:
                accesses |= set(indices(e))
        for d in range(len(sizes) - 1):
            if d + 1 == len(outer):
                continue  # never across the boundary between outer and inner
            if not _walks_as_one(accesses, variables, d, sizes):
                continue
            members = tuple(_merge_member(m, variables, d) for m in members)
            target = outer if d < len(outer) else inner
            at = d if d < len(outer) else d - len(outer)
            target[at : at + 2] = [prod(target[at : at + 2])]
            changed = True
            break
    return dataclasses.replace(group, outer=tuple(outer), inner=tuple(inner), members=members)


def _walks_as_one(
    accesses: set[sympy.Expr], variables: Sequence[sympy.Symbol], d: int, sizes: Sequence[Size]
) -> bool:
    """Whether every access depends on ``v_d`` and ``v_{d+1}`` only as ``v_d*size + v_{d+1}``."""
    a, b = variables[d], variables[d + 1]
    for e in accesses:
        if not e.free_symbols & {a, b}:
            continue
        affine = coefficients(e, [a, b])
        if affine is None or affine[1].free_symbols & {a, b}:
            return False
        zero = sympy.Integer(0)
        ca, cb = affine[0].get(a, zero), affine[0].get(b, zero)
        if sympy.expand(ca - cb * sizes[d + 1]) != 0:
            return False
    return True


def _merge_member(m, variables: Sequence[sympy.Symbol], d: int):  # type: ignore[no-untyped-def]
    # With index == ca*v_d + cb*v_{d+1} and ca == cb*size, putting the merged variable for v_{d+1}
    # and zero for v_d gives cb*merged; later variables move down by one.
    mapping: dict[sympy.Symbol, sympy.Expr] = {
        variables[d]: sympy.Integer(0),
        variables[d + 1]: variables[d],
    }
    for k in range(d + 2, len(variables)):
        mapping[variables[k]] = variables[k - 1]
    return dataclasses.replace(
        m,
        body=map_indices(substitute(m.body, mapping), lambda e: e),
        store=m.store.xreplace(mapping),
        store_indirect=tuple(substitute(e, mapping) for e in m.store_indirect),
    )
