"""A kernel under construction in the scheduler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sympy

from ocl_inductor.ir.expr import map_indices, substitute
from ocl_inductor.ir.index import Size, contiguous_strides, linear, loop_vars, same
from ocl_inductor.ir.nodes import Extern, Loop, Origin, Template
from ocl_inductor.schedule.groups import Member


@dataclass(slots=True, eq=False)
class FusionGroup:
    """A kernel to which loops can still be added.

    ``ancestors``: bit n is set when this kernel depends on kernel number n.
    """

    number: int
    outer: list[Size] = field(default_factory=list)
    inner: list[Size] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    template: Template | None = None
    extern: Extern | None = None
    closed: bool = False
    ancestors: int = 0
    origin: Origin = field(default_factory=Origin)

    @property
    def sizes(self) -> list[Size]:
        return self.outer + self.inner

    @property
    def has_reduction(self) -> bool:
        return any(m.kind == "reduction" for m in self.members)

    def member(self, name: str) -> Member | None:
        return next((m for m in self.members if m.buffer.name == name), None)

    def reads(self) -> set[str]:
        names = set(self.template.operands) if self.template else set()
        if self.extern is not None:
            names |= self.extern.reads()
        for m in self.members:
            names |= m.reads() | ({m.base} if m.base else set())
        return names - self.writes()

    def writes(self) -> set[str]:
        names = {m.buffer.name for m in self.members}
        if self.template is not None:
            names.add(self.template.buffer.name)
        if self.extern is not None:
            names |= {b.name for b in self.extern.outputs} | set(self.extern.host_results)
        return names

    @property
    def label(self) -> str:
        names = self.origin.fx_nodes
        return "+".join(names[-3:]) if names else f"kernel{self.number}"

    def store_index(self, name: str) -> sympy.Expr:
        """The index at which this kernel stores ``name``, in the kernel's variables."""
        if self.template is not None and self.template.buffer.name == name:
            return linear(loop_vars(len(self.outer)), contiguous_strides(self.outer))
        member = self.member(name)
        assert member is not None
        return member.store


def as_member(node: Loop) -> tuple[Member, list[Size], list[Size]]:
    """Drop extent-1 dimensions and renumber."""
    keep_outer = [d for d, s in enumerate(node.ranges) if not same(s, 1)]
    offset = len(node.ranges)
    keep_inner = [offset + d for d, s in enumerate(node.reduction_ranges) if not same(s, 1)]
    old = loop_vars(offset + len(node.reduction_ranges))
    mapping: dict[sympy.Symbol, sympy.Expr] = {v: sympy.Integer(0) for v in old}
    mapping.update(
        {old[d]: v for v, d in zip(loop_vars(len(old)), keep_outer + keep_inner, strict=False)}
    )
    mapping = {v: e for v, e in mapping.items() if v != e}
    sizes = list(node.ranges + node.reduction_ranges)
    member = Member(
        node.buffer,
        node.kind,
        substitute(node.body, mapping),
        node.store.xreplace(mapping),
        node.how,
        store_indirect=tuple(substitute(e, mapping) for e in node.store_indirect),
        base=node.base,
    )
    return member, [sizes[d] for d in keep_outer], [sizes[d] for d in keep_inner]


def moved_member(
    m: Member,
    mapping: dict[sympy.Symbol, sympy.Expr],
    tidy: Callable[[sympy.Expr], sympy.Expr],
) -> Member:
    return dataclasses.replace(
        m,
        body=map_indices(substitute(m.body, mapping), tidy),
        store=tidy(m.store.xreplace(mapping)),
        store_indirect=tuple(map_indices(substitute(e, mapping), tidy) for e in m.store_indirect),
    )


def live_members(members: Sequence[Member], stored: frozenset[str]) -> tuple[Member, ...]:
    """Members that are stored or that a kept member reads."""
    wanted = set(stored)
    kept: list[Member] = []
    for m in reversed(members):
        if m.buffer.name in wanted:
            kept.append(m)
            wanted |= m.reads()
    return tuple(reversed(kept))
