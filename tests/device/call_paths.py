"""Whether calls found everything bound but the passed tensors."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ocl_inductor.runtime.call import executor
from ocl_inductor.runtime.call.executor import Executor
from ocl_inductor.runtime.call.launcher import Launcher


def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Executor, bool]]:
    """For each call of a plan that the fast path serves: whether it bound only what moved."""
    went: list[tuple[Executor, bool]] = []
    bound: set[Executor] = set()
    under_way: set[Executor] = set()
    make, bind = executor.launcher_of, Executor.bind

    def binding(self: Executor, *call: Any) -> Any:
        bound.add(self)
        return bind(self, *call)

    def watching(own: Executor, *facts: Any) -> Launcher:
        made = make(own, *facts)

        def call(*arguments: Any) -> tuple[Any, ...]:
            if own in under_way:  # it begins once more: with a recorder's stream, or repeated
                return made.call(*arguments)
            bound.discard(own)
            under_way.add(own)
            try:
                results = made.call(*arguments)
            finally:
                under_way.remove(own)
            went.append((own, own not in bound))
            return results

        return made if own.guards is None else dataclasses.replace(made, call=call)

    monkeypatch.setattr(Executor, "bind", binding)
    monkeypatch.setattr(executor, "launcher_of", watching)
    return went
