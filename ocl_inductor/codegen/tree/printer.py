"""Statements as OpenCL C."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ocl_inductor.codegen.printers.conversions import emit_store
from ocl_inductor.codegen.printers.nontemporal import emit_streamed
from ocl_inductor.codegen.tree.nodes import (
    Array,
    Assign,
    Barrier,
    BlockStatement,
    CallStatement,
    CountOn,
    Doubling,
    For,
    If,
    Let,
    Statement,
    Store,
    Variable,
)

INDENT = "    "
BARRIER = "barrier(CLK_LOCAL_MEM_FENCE);"


def printed(
    statements: Iterable[Statement], pointers: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    """The lines of some statements; ``pointers``: what buffers are called in the kernel."""
    return _StatementPrinter(pointers).lines(statements)


@dataclass(frozen=True, slots=True)
class _StatementPrinter:
    pointers: Mapping[str, str]

    def lines(self, statements: Iterable[Statement]) -> Iterator[str]:
        for s in statements:
            yield from self.line(s)

    def line(self, s: Statement) -> Iterator[str]:
        match s:
            case Let():
                yield f"const {s.kind} {s.name} = {s.value};"
            case Variable():
                yield f"{s.kind} {s.name} = {s.value};" if s.value else f"{s.kind} {s.name};"
            case Array():
                space = f"{s.space} " if s.space else ""
                extents = "".join(f"[{n}]" for n in s.extents)
                yield f"{space}{s.kind} {s.name}{extents};"
            case Assign():
                yield f"{s.target} = {s.value};"
            case Store():
                yield self.store(s)
            case CallStatement():
                yield f"{s.text};{_said(s.comment)}"
            case Barrier():
                yield BARRIER
            case BlockStatement():
                yield from self.braced("", s.body, s.comment)
            case If():
                head = f"if ({s.condition})"
                yield from self.braced(f"else {head}" if s.otherwise else head, s.body)
            case For():
                if s.pragma:
                    yield s.pragma
                yield from self.braced(_head(s), s.body)
            case Doubling():
                v = s.variable
                yield from self.braced(f"for (int {v} = 1; {v} < {s.end}; {v} *= 2)", s.body)
            case CountOn():
                yield from _count_on(s)

    def braced(self, head: str, body: Iterable[Statement], comment: str = "") -> Iterator[str]:
        yield (f"{head} {{" if head else "{") + _said(comment)
        for line in self.lines(body):
            yield f"{INDENT}{line}"
        yield "}"

    def store(self, s: Store) -> str:
        pointer = self.pointers.get(s.buffer, s.buffer)
        if s.streamed:
            return emit_streamed(s.dtype, s.width, pointer, s.at, s.value)
        return emit_store(s.width, s.dtype, pointer, s.at, s.value, s.space, s.aligned)


def _said(comment: str) -> str:
    return f"  // {comment}" if comment else ""


def _head(s: For) -> str:
    v, end = s.variable, s.end.text
    step = f"++{v}" if s.step == 1 else f"{v} += {s.step}"
    if s.begin is None:
        reach = v if s.room == 1 else f"{v} + {s.room}"
        return f"for (; {reach} {'<' if s.room == 1 else '<='} {end}; {step})"
    inside = f"{v} < {end}" if s.room == 1 else f"{v} <= {end} - {s.room}"
    return f"for ({s.kind} {v} = {s.begin.text}; {inside}; {step})"


def _count_on(s: CountOn) -> Iterator[str]:
    outermost, *rest = s.variables
    lines = [f"++{outermost};"]
    for v, extent in zip(rest, s.extents, strict=True):
        head = f"if (++{v} == {extent.text}) {{"
        lines = [head, f"{INDENT}{v} = 0;", *(f"{INDENT}{line}" for line in lines), "}"]
    return iter(lines)
