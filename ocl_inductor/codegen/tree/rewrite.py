"""Passes over statements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from ocl_inductor.codegen.tree.nodes import (
    Accumulate,
    Accumulator,
    BlockStatement,
    Doubling,
    For,
    If,
    Statement,
)

#: What stands in place of a statement, whose own body is rewritten already.
Rule = Callable[[Statement], Sequence[Statement]]


def rewritten(statements: Sequence[Statement], rule: Rule) -> list[Statement]:
    """The statements and all in them, each as ``rule`` has it."""
    found: list[Statement] = []
    for s in statements:
        if isinstance(s, BlockStatement | If | For | Doubling):
            s = dataclasses.replace(s, body=tuple(rewritten(s.body, rule)))
        found += rule(s)
    return found


def accumulators_in(statements: Sequence[Statement]) -> list[Accumulator]:
    """What the statements accumulate into, each once, in their order."""
    found: dict[Accumulator, None] = {}

    def rule(s: Statement) -> Sequence[Statement]:
        if isinstance(s, Accumulate):
            found[s.into] = None
        return [s]

    rewritten(statements, rule)
    return list(found)


def with_accumulators(
    statements: Sequence[Statement], others: Mapping[Accumulator, Accumulator]
) -> tuple[Statement, ...]:
    """The statements, which accumulate into ``others`` in place of their own."""

    def rule(s: Statement) -> Sequence[Statement]:
        if isinstance(s, Accumulate) and s.into in others:
            return [dataclasses.replace(s, into=others[s.into])]
        return [s]

    return tuple(rewritten(statements, rule))
