"""The table from aten operator to lowering function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Lowering = Callable[..., Any]

#: Operator overload (``torch.ops.aten.add.Tensor``) to ``fn(ctx, *args, **kwargs)``.
LOWERINGS: dict[object, Lowering] = {}


class CannotLower(Exception):
    """Raised by a lowering for arguments it does not cover; the operator then runs on the host."""


#: The same for operators of libraries that may be imported later, by their names.
LOWERINGS_BY_NAME: dict[str, Lowering] = {}


def lowering_of(target: object) -> Lowering | None:
    """The lowering of an operator overload, or None."""
    found = LOWERINGS.get(target)
    return LOWERINGS_BY_NAME.get(str(target)) if found is None else found


def register_by_name(name: str) -> Callable[[Lowering], Lowering]:
    """Register a lowering for ``"library.operator.overload"``, which need not exist yet."""

    def decorate(fn: Lowering) -> Lowering:
        if name in LOWERINGS_BY_NAME:
            raise ValueError(f"{name} already has a lowering")
        LOWERINGS_BY_NAME[name] = fn
        return fn

    return decorate


def register(*targets: object) -> Callable[[Lowering], Lowering]:
    """Register a lowering for operator overloads. A duplicate registration is a bug and raises."""

    def decorate(fn: Lowering) -> Lowering:
        for target in targets:
            if target in LOWERINGS:
                raise ValueError(f"{target} already has a lowering")
            LOWERINGS[target] = fn
        return fn

    return decorate
