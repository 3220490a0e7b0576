"""A pass: loops prefetch what they read later (streams.py says what, and how far)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import sympy

from ocl_inductor.codegen.passes.streams import Prefetches
from ocl_inductor.codegen.printers.primitives import prefetch
from ocl_inductor.codegen.tree.nodes import (
    BlockStatement,
    CallStatement,
    Elements,
    For,
    Let,
    Statement,
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Pass:
    """``distances``: in elements; ``text``: of an index; ``line``: bytes of a cache line;
    ``pointers``: what buffers are called in the kernel."""

    distances: Prefetches
    pointers: Mapping[str, str]
    text: Callable[[sympy.Expr], str]
    line: int

    def of(self, statements: Sequence[Statement], in_loop: bool) -> Iterator[Statement]:
        for s in statements:
            if isinstance(s, Let) and in_loop:
                for read in s.reads:
                    yield from self.ahead_of(read)
            # What a condition guards may not be there at all.
            if isinstance(s, For | BlockStatement):
                inside = in_loop or isinstance(s, For)
                s = dataclasses.replace(s, body=tuple(self.of(s.body, inside)))
            yield s

    def ahead_of(self, read: Elements) -> Iterator[CallStatement]:
        """Prefetch the cache lines that a later round of the loop reads."""
        streams = read.buffer in self.distances and read.over is None and read.lanes > 1
        if not streams or read.first is None:
            return
        at, size = self.text(read.first), read.itemsize
        for start in range(0, read.lanes * size, self.line):
            further = self.text(sympy.Integer(self.distances[read.buffer] * size + start))
            buffer = self.pointers[read.buffer]
            yield CallStatement(prefetch(buffer, at, write=False, further=further))


def prefetched(
    statements: Sequence[Statement],
    distances: Prefetches,
    pointers: Mapping[str, str],
    text: Callable[[sympy.Expr], str],
    line: int,
) -> list[Statement]:
    """The statements, whose loops prefetch ``distances`` elements ahead of what they read."""
    return list(_Pass(distances, pointers, text, line).of(statements, in_loop=False))
