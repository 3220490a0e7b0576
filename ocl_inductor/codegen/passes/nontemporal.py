"""A pass: whole vectors that go to results which caches do not hold are stored past them.

Which results those are, and the statement itself: printers/nontemporal.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ocl_inductor.codegen.printers.nontemporal import FENCE
from ocl_inductor.codegen.tree.nodes import CallStatement, Statement, Store
from ocl_inductor.codegen.tree.rewrite import rewritten


def streamed(statements: Sequence[Statement], buffers: frozenset[str]) -> Sequence[Statement]:
    """The statements of a work-item, with nontemporal stores to ``buffers``."""
    if not buffers:
        return statements

    def store(s: Statement) -> Sequence[Statement]:
        if isinstance(s, Store) and s.buffer in buffers and s.width > 1:
            return [dataclasses.replace(s, streamed=True)]
        return [s]

    fence = CallStatement(FENCE, "streaming stores are not ordered with what follows")
    return [*rewritten(statements, store), fence]
