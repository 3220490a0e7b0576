"""What a kernel template is instantiated with: a frozen value of a type that its file defines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import sympy

from ocl_inductor.ir.index import Size

P = TypeVar("P", bound="TemplateParams")


def bytes_of(acc: str) -> int:
    """Of one number of type ``acc``."""
    return 4 if acc in ("float", "int") else 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateParams:
    """Base of every template's parameters: hashable, and part of the node.

    ``acc``: OpenCL type of an element of the result before its epilogue, ``"float"``, ``"double"``,
    ``"int"`` or ``"long"``.
    """

    acc: str

    @property
    def itemsize(self) -> int:
        """Bytes of an element in the type of ``acc``."""
        return bytes_of(self.acc)

    def values(self) -> list[object]:
        """The value of each field."""
        return [getattr(self, f.name) for f in fields(self)]


def leaves(value: object) -> Iterator[object]:
    """What ``value`` consists of: a tuple's elements, a dataclass's fields, or itself."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            yield from leaves(getattr(value, f.name))
    else:
        yield value


def with_numbers(params: P, hint: Callable[[Size], int]) -> P:
    """``params`` with ``hint`` of each symbolic size, also inside tuples."""
    return replace(
        params, **{f.name: _numbers(getattr(params, f.name), hint) for f in fields(params)}
    )


def _numbers(value: object, hint: Callable[[Size], int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_numbers(item, hint) for item in value)
    return hint(value) if isinstance(value, sympy.Basic) else value
