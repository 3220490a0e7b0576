"""The arguments of an operator's call by the names in its schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def bind(target: Any, args: Sequence[object], kwargs: dict[str, object]) -> dict[str, Any]:
    """The call's arguments by their schema names, defaults included."""
    bound: dict[str, Any] = {}
    schema = target._schema.arguments
    for i, argument in enumerate(schema):
        if i < len(args):
            bound[argument.name] = args[i]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        else:
            bound[argument.name] = argument.default_value
    return bound


def per_dim(values: int | Sequence[int], n: int, default: Sequence[int] = ()) -> list[int]:
    """One number for each of ``n`` dimensions from a number, a list of one, or a list of n."""
    given = [values] if isinstance(values, int) else list(values)
    if not given:
        return list(default)
    return [int(v) for v in (given * n if len(given) == 1 else given)]
