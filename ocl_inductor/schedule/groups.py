"""The scheduler's result: groups of nodes, each of which becomes one kernel (or a host call)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import sympy

from ocl_inductor.ir.expr import Expr, loads, walk
from ocl_inductor.ir.index import Size, loop_vars
from ocl_inductor.ir.nodes import Buffer, Extern, LoopKind, Origin, Template


@dataclass(frozen=True, slots=True)
class Decision:
    """Yes or no, with the reason for the log."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """One loop in the coordinates of its group: ``v0..`` over outer, then inner dimensions.

    ``row``: the member is evaluated once for each outer point (it does not touch the inner ones).
    ``level``: number of complete sweeps over the inner dimensions that must come before it.
    """

    buffer: Buffer
    kind: LoopKind
    body: Expr
    store: sympy.Expr
    how: str = ""
    row: bool = False
    level: int = 0
    store_indirect: tuple[Expr, ...] = ()
    base: str = ""

    def reads(self) -> set[str]:
        names = {n.payload.buffer for n in loads(self.body)}
        for e in self.store_indirect:
            names |= {n.payload.buffer for n in loads(e)}
        return names

    @property
    def checks_indices(self) -> bool:
        """Whether it checks indices for being out of range."""
        roots = (self.body, *self.store_indirect)
        return any(n.op == "checked_index" for root in roots for n in walk(root))


@dataclass(frozen=True, slots=True)
class LoopGroup:
    """Loops that share an iteration space: ``outer`` points, each with a sweep over ``inner``."""

    outer: tuple[Size, ...]
    inner: tuple[Size, ...]
    members: tuple[Member, ...]
    stored: frozenset[str]
    origin: Origin = field(default=Origin(), compare=False)

    @property
    def outer_vars(self) -> list[sympy.Symbol]:
        return loop_vars(len(self.outer))

    @property
    def inner_vars(self) -> list[sympy.Symbol]:
        return loop_vars(len(self.inner), len(self.outer))

    @property
    def var_ranges(self) -> dict[sympy.Symbol, Size]:
        names = self.outer_vars + self.inner_vars
        return dict(zip(names, self.outer + self.inner, strict=True))

    def writes(self) -> tuple[Buffer, ...]:
        return tuple(m.buffer for m in self.members if m.buffer.name in self.stored)

    def reads(self) -> set[str]:
        """Buffers that must exist before the kernel starts."""
        return _read_by(self.members, self.stored) - {m.buffer.name for m in self.members}


@dataclass(frozen=True, slots=True)
class TemplateGroup:
    """A template with pointwise members evaluated on each of its results."""

    template: Template
    space: tuple[Size, ...]
    epilogue: tuple[Member, ...]
    stored: frozenset[str]
    origin: Origin = field(default=Origin(), compare=False)

    def writes(self) -> tuple[Buffer, ...]:
        everything = (self.template.buffer, *(m.buffer for m in self.epilogue))
        return tuple(b for b in everything if b.name in self.stored)

    def reads(self) -> set[str]:
        own = {self.template.buffer.name} | {m.buffer.name for m in self.epilogue}
        return (set(self.template.operands) | _read_by(self.epilogue, self.stored)) - own


@dataclass(frozen=True, slots=True)
class ExternGroup:
    """A host call."""

    node: Extern

    @property
    def origin(self) -> Origin:
        return self.node.origin

    def writes(self) -> tuple[Buffer, ...]:
        return self.node.outputs

    def reads(self) -> set[str]:
        return self.node.reads()


Group = LoopGroup | TemplateGroup | ExternGroup


def _read_by(members: Sequence[Member], stored: frozenset[str]) -> set[str]:
    """Buffers that members read, and those that stored members update."""
    names = {m.base for m in members if m.base and m.buffer.name in stored}
    return names.union(*(m.reads() for m in members))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node did not join a kernel.

    ``kernel`` and ``node`` name them by FX nodes; ``kernel_buffer`` and ``node_buffer`` are buffers
    that each of them writes, by which their groups can be found.
    """

    kernel: str
    node: str
    reason: str
    kernel_buffer: str = ""
    node_buffer: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Groups in execution order; ``refusals`` says why neighbours were not fused.

    ``batches``: positions of neighbours that do not depend on each other and may run at the same
    time.
    """

    groups: tuple[Group, ...]
    refusals: tuple[Refusal, ...] = ()
    batches: tuple[range, ...] = ()
