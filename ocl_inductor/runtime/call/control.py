"""Control flow between plans: which one runs next is decided on the host, from their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ocl_inductor.plan.plan import Plan, Region

#: ``run([inputs]) -> results``; takes the list over.
Run = Callable[[list[Any]], tuple[Any, ...]]


class Control:
    """A region that can be called: ``region.how`` names the method."""

    def __init__(self, region: Region, execute: Callable[[Plan], Run]) -> None:
        self.region = region
        self.bodies = [_taking(execute(plan)) for plan in region.bodies]

    def __call__(self, *args: object) -> tuple[object, ...]:
        return getattr(self, self.region.how)(*args)  # type: ignore[no-any-return]

    def cond(self, pred: object, operands: Sequence[object]) -> tuple[Any, ...]:
        """One of two branches."""
        return self.bodies[0 if pred else 1](operands)

    def while_loop(self, carried: Sequence[object], others: Sequence[object]) -> tuple[object, ...]:
        """The second body while the first one returns true."""
        condition, body = self.bodies
        while condition((*carried, *others))[0]:
            carried = body((*carried, *others))
        return tuple(carried)

    def while_loop_stack_output(
        self, carried: Sequence[object], others: Sequence[object]
    ) -> tuple[object, ...]:
        """As ``while_loop``, with the values of all iterations; the initial ones if none."""
        condition, body = self.bodies
        rounds = []
        first = carried
        while condition((*carried, *others))[0]:
            carried = body((*carried, *others))
            rounds.append(carried)
        return tuple(
            torch.stack(list(of)) if isinstance(of[0], torch.Tensor) else of[-1]
            for of in zip(*(rounds or [tuple(first)]), strict=True)
        )

    def scan(
        self, carried: Sequence[object], xs: Sequence[torch.Tensor], others: Sequence[object]
    ) -> tuple[object, ...]:
        """The body for each row of ``xs``; what it returns after the carried values is stacked."""
        (body,) = self.bodies
        rows = []
        count = len(carried)
        for row in zip(*(x.unbind() for x in xs), strict=True):
            results = body((*carried, *row, *others))
            carried = results[:count]
            rows.append(results[count:])
        return (*carried, *_stacked(rows))

    def map_impl(self, xs: Sequence[torch.Tensor], others: Sequence[object]) -> tuple[Any, ...]:
        """The body for each row of ``xs``; its results are stacked."""
        (body,) = self.bodies
        return _stacked([body((*row, *others)) for row in zip(*(x.unbind() for x in xs))])


def _taking(run: Run) -> Callable[[Sequence[object]], tuple[object, ...]]:
    """``run`` on a copy of the operand list, as it takes the list over."""
    return lambda operands: run(list(operands))


def _stacked(rows: Sequence[Sequence[object]]) -> tuple[object, ...]:
    """Stack each result over the rows; one that is None in all rows stays None."""
    return tuple(
        torch.stack(list(of)) if isinstance(of[0], torch.Tensor) else of[0]
        for of in zip(*rows, strict=True)
    )
