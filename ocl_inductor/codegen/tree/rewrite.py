"""Passes over statements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ocl_inductor.codegen.tree.nodes import BlockStatement, Doubling, For, If, Statement

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
