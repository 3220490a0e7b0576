"""Statements as OpenCL C."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def printed(statements: Iterable[Statement]) -> Iterator[str]:
    """The lines of some statements."""
    for s in statements:
        yield from _lines(s)


def _lines(s: Statement) -> Iterator[str]:
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
            yield _store(s)
        case CallStatement():
            yield f"{s.text};{_said(s.comment)}"
        case Barrier():
            yield BARRIER
        case BlockStatement():
            yield from _braced("", s.body, s.comment)
        case If():
            head = f"if ({s.condition})"
            yield from _braced(f"else {head}" if s.otherwise else head, s.body)
        case For():
            if s.pragma:
                yield s.pragma
            yield from _braced(_head(s), s.body)
        case Doubling():
            v = s.variable
            yield from _braced(f"for (int {v} = 1; {v} < {s.end}; {v} *= 2)", s.body)
        case CountOn():
            yield from _count_on(s)


def _said(comment: str) -> str:
    return f"  // {comment}" if comment else ""


def _braced(head: str, body: Iterable[Statement], comment: str = "") -> Iterator[str]:
    yield (f"{head} {{" if head else "{") + _said(comment)
    for line in printed(body):
        yield f"{INDENT}{line}"
    yield "}"


def _store(s: Store) -> str:
    if s.streamed:
        return emit_streamed(s.dtype, s.width, s.buffer, s.at, s.value)
    return emit_store(s.width, s.dtype, s.buffer, s.at, s.value, s.space, s.aligned)


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
