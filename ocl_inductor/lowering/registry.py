"""The table from aten operator to lowering function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Lowering = Callable[..., Any]

#: Operator overload (``torch.ops.aten.add.Tensor``) to ``fn(ctx, *args, **kwargs)``.
LOWERINGS: dict[Any, Lowering] = {}


class CannotLower(Exception):
    """Raised by a lowering for arguments it does not cover; the operator then runs on the host."""


def register(*targets: Any) -> Callable[[Lowering], Lowering]:
    """Register a lowering for operator overloads. A duplicate registration is a bug and raises."""

    def decorate(fn: Lowering) -> Lowering:
        for target in targets:
            if target in LOWERINGS:
                raise ValueError(f"{target} already has a lowering")
            LOWERINGS[target] = fn
        return fn

    return decorate
