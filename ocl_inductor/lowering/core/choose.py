"""Choosing among the ways to compute a problem: an ordered list, walked by one function.

A way either gives its result or declines with a reason. What was declined is kept with the graph,
for ``ocl-inductor explain``, and logged under ``TORCH_LOGS=opencl_selection``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from ocl_inductor.ir.nodes import KernelChoice
from ocl_inductor.log import artifact
from ocl_inductor.lowering.core.context import LoweringContext

P = TypeVar("P")
R = TypeVar("R")

_log = artifact(__name__, "selection")


@dataclass(frozen=True, slots=True)
class Declined:
    """Why an implementation does not compute a problem here."""

    reason: str


@dataclass(frozen=True, slots=True)
class Implementation(Generic[P, R]):
    """One way to compute a problem. What an ``attempt`` emitted before declining is taken back."""

    name: str
    attempt: Callable[[LoweringContext, P], R | Declined]


@overload
def choose(
    ctx: LoweringContext, problem: str, value: P, ways: Sequence[Implementation[P, R]]
) -> R: ...
@overload
def choose(
    ctx: LoweringContext,
    problem: str,
    value: P,
    ways: Sequence[Implementation[P, R]],
    otherwise: str,
) -> R | None: ...
def choose(
    ctx: LoweringContext,
    problem: str,
    value: P,
    ways: Sequence[Implementation[P, R]],
    otherwise: str | None = None,
) -> R | None:
    """The result of the first of ``ways`` that does not decline.

    ``otherwise``: what the caller does where all decline, which is None here. Without it the last
    of ``ways`` is expected to take everything.

    Raises:
        AssertionError: all declined, and there is no other way.
    """
    declined: list[tuple[str, str]] = []
    for way in ways:
        mark = ctx.mark()
        found = way.attempt(ctx, value)
        if not isinstance(found, Declined):
            # Before those of the problems that it is made of.
            choice = KernelChoice(ctx.origin, problem, way.name, tuple(declined))
            ctx.selections.insert(mark[1], choice)
            _say(choice)
            return found
        ctx.take_back(mark)
        declined.append((way.name, found.reason))
    assert otherwise is not None, f"{problem}: {declined}"
    choice = KernelChoice(ctx.origin, problem, otherwise, tuple(declined))
    ctx.selections.append(choice)
    _say(choice)
    return None


def _say(selection: KernelChoice) -> None:
    nodes = ", ".join(selection.origin.fx_nodes)
    _log.debug("%s of %s: %s", selection.problem, nodes, selection.chosen)
    for name, reason in selection.declined:
        _log.debug("%s of %s: not %s: %s", selection.problem, nodes, name, reason)
