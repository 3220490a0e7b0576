"""A pass: independent accumulators for the vectors of a reduction.

An addition waits for the one before it, about four cycles, in which a core could issue eight vector
operations (Fog, "Instruction tables"; Intel and AMD cores since 2015 issue two a cycle). Where a
body has fewer operations than that, consecutive vectors go to separate accumulators, which are
combined after the loop. Sums become a little more accurate, as each chain is shorter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.utils._sympy.functions import FloorDiv

from ocl_inductor.codegen.statements.accumulators import declared
from ocl_inductor.codegen.statements.emitter import Emitter
from ocl_inductor.codegen.tree.nodes import (
    Accumulate,
    BlockStatement,
    For,
    Let,
    LoopBound,
    Statement,
    variable,
)
from ocl_inductor.codegen.tree.rewrite import accumulators_in, rewritten, with_accumulators
from ocl_inductor.ir.expr import Expr
from ocl_inductor.ir.index import Size, is_static
from ocl_inductor.ir.ops import EXPENSIVE, WITHOUT_INSTRUCTION
from ocl_inductor.schedule.groups import Member

#: Vector operations that a core can issue within the latency of one addition.
HIDDEN_OPERATIONS = 8
MAX_WAYS = 4
#: Registers for accumulators: half of AVX2's.
MAX_VALUES = 8
#: Iterations of the loop below which combining costs what it saves.
MIN_ROUNDS = 2
_SIMPLE_FOLDS = frozenset({"sum", "prod", "max", "min"})
_NO_OPERATION = WITHOUT_INSTRUCTION | {"checked_index"}


def ways(
    members: Sequence[Member], every: Mapping[str, Member], writer: Emitter, vectors: Size
) -> int:
    """Accumulators for each reduction among ``members``, which one loop computes: 1, 2 or 4.

    ``every``: the kernel's members by name, some of which are computed within the bodies.
    ``vectors``: trip count of the loop.
    """
    if not all(
        m.kind == "reduction" and m.how in _SIMPLE_FOLDS and m.body.dtype is not torch.bool
        for m in members
    ):
        return 1
    operations = len(members) + _operations([m.body for m in members], every, writer)
    found = MAX_WAYS
    while found > 1 and (
        found // 2 * operations >= HIDDEN_OPERATIONS
        or found * len(members) > MAX_VALUES
        or (is_static(vectors) and int(vectors) < found * MIN_ROUNDS)
    ):
        found //= 2
    return found


def _operations(bodies: Sequence[Expr], every: Mapping[str, Member], writer: Emitter) -> int:
    """Vector operations of one iteration; a call of many instructions counts HIDDEN_OPERATIONS."""
    total, seen, stack = 0, set(bodies), list(bodies)
    while stack:
        e = stack.pop()
        if writer.vector_var not in writer.free(e):
            continue  # computed before the loop
        if e.op in EXPENSIVE or e.op == "masked":
            return HIDDEN_OPERATIONS
        inside = list(e.args)
        if e.op == "load":
            m = every.get(e.payload.buffer)
            if m is not None and m.kind == "pointwise" and e.payload.buffer not in writer.in_memory:
                inside.append(m.body)
        total += e.op not in _NO_OPERATION
        found = set(inside) - seen
        seen |= found
        stack += found
    return total


def side_by_side(
    statements: Sequence[Statement], name: str, width: int, count: int, exact: bool
) -> list[Statement]:
    """The statements; loops over vectors of ``name`` take ``count`` of ``width`` lanes a round.

    ``exact``: no vectors are left after the last round.
    """

    def rule(s: Statement) -> Sequence[Statement]:
        if isinstance(s, For) and (s.variable, s.step) == (name, width) and s.begin is not None:
            return list(_rounds(s, count, exact))
        return [s]

    return rewritten(statements, rule)


def _rounds(loop: For, count: int, exact: bool) -> Iterator[Statement]:
    own, begin = accumulators_in(loop.body), loop.begin
    assert begin is not None
    copies = [
        {a: dataclasses.replace(a, name=f"{a.name}_way{k}") for a in own} for k in range(1, count)
    ]
    for copy in copies:
        for a in copy.values():
            yield from declared(a)
    v, width, stride = loop.variable, loop.step, count * loop.step
    run = variable(f"{v}_run")
    blocks = [
        BlockStatement(
            (
                Let(loop.kind, v, f"{run} + {k * width}", index=run + k * width),
                *with_accumulators(loop.body, taken),
            )
        )
        for k, taken in enumerate([{}, *copies])
    ]
    yield For(loop.kind, run.name, begin, loop.end, tuple(blocks), step=stride, room=stride)
    for copy in copies:
        for a, other in copy.items():
            yield Accumulate(a, other.name)
    if exact:
        return
    done = f"({loop.end.text}) / {stride} * {stride}"
    if begin.value != 0:
        done = f"{begin.text} + ({loop.end.text} - {begin.text}) / {stride} * {stride}"
    reached = begin.value + FloorDiv(loop.end.value - begin.value, stride) * stride
    yield dataclasses.replace(loop, begin=LoopBound(done, reached), room=width)
