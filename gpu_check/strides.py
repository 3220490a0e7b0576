"""Which buffers a kernel goes through with large steps between neighbouring work-items.

The first work-items of a launch are followed through the source: integers that do not depend on
data are computed for all of them at once, loops are entered and not repeated, both sides of an
``if`` count. What depends on data counts as 0 for everybody. A gather by an index of rows is thus
judged by what it does inside a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocl_inductor.plan.kernel_code import item
from ocl_inductor.plan.plan import Kernel, Launch

#: Work-items that are served together, and the bytes of memory that come together.
LANES, LINE = 32, 64
#: This many times the lines that a row of adjacent elements takes is a stride.
FACTOR = 4

_SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4,
          "float": 4, "long": 8, "ulong": 8, "double": 8, "bool": 1}  # fmt: skip
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_INTEGER = r"(?:int|long|uint|ulong|size_t)"
_TYPE = re.compile(r"(?:const |volatile )*([a-z]+?)(\d*)(?: const)? ?\*")
_STATEMENT = re.compile(
    rf"""
    (?P<pointer>__global\ [\w ]+?\*\ ?(?:restrict\ )?(?P<alias>\w+)\ =\ (?P<whence>[^;]+);)
    | \b(?P<number>{_INTEGER}\ (?P<declared>\w+\ =\ [^;]+);)
    | (?P<cast>\(__global\ (?P<kind>[\w ]+?\*)\)\s*\()
    | \b(?P<vector>vstore|vload)(?:a?_half)?(?P<lanes>\d*)\w*\(
    | \b(?P<array>\w+)\[
    """,
    re.X,
)


@dataclass(frozen=True)
class _Pointer:
    """A buffer, the size of what it holds in bytes, and where in it a pointer points."""

    buffer: str
    item: int
    offset: Any = 0


def strided(kernel: Kernel, launch: Launch) -> set[str]:
    """Names, in the source, of the parameters whose lines are used in small part."""
    code = kernel.code
    body = _COMMENT.sub("", code.body)
    values: dict[str, Any] = _functions(launch.local_size or (64,))
    values |= {item(n): values["get_global_id"](n) for n in code.dimensions}
    pointers: dict[str, _Pointer] = {}
    numbers = [int(x) for x in (*launch.scalars, *launch.literals)]
    for p in code.parameters:
        kind = _TYPE.search(p.kind.partition("__global ")[2])
        if kind is not None:
            pointers[p.name] = _Pointer(p.name, _bytes(kind))
        elif numbers:
            values[p.name] = numbers.pop(0)
    found: set[str] = set()
    for buffer, address, width in _accesses(body, values, pointers):
        if _lines(address, width) >= FACTOR * max(1, LANES * width // LINE):
            found.add(buffer)
    return found


def _closing(text: str, opening: int) -> int:
    """Where the bracket that opens there is closed."""
    depth = 0
    for i in range(opening, len(text)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError(f"no end of {text[opening : opening + 40]!r}")


def _functions(group: tuple[int, ...]) -> dict[str, Any]:
    """What a work-item may ask, for the first ``LANES`` of a launch."""
    lanes = np.arange(LANES)
    sizes = (*group, 1, 1)[:3]
    local, rest = [], lanes
    for size in sizes:
        local.append(rest % size)
        rest = rest // size
    place: list[Any] = [rest, 0, 0]  # of groups smaller than LANES several count
    return {
        "get_local_id": lambda d: local[d],
        "get_group_id": lambda d: place[d],
        "get_global_id": lambda d: local[d] + place[d] * sizes[d],
        "get_local_size": lambda d: sizes[d],
        "min": np.minimum,
        "max": np.maximum,
        "__builtins__": {},
    }


def _accesses(
    body: str, values: dict[str, Any], pointers: dict[str, _Pointer]
) -> Iterator[tuple[str, Any, int]]:
    """Buffer, address in bytes and width in bytes of each load and store of global memory."""
    for found in _STATEMENT.finditer(body):
        if found["pointer"]:
            name, _, offset = found["whence"].partition("+")
            if name.strip() in pointers:
                base = pointers[name.strip()]
                more = _value(offset, values) if offset.strip() else 0
                pointers[found["alias"]] = _Pointer(base.buffer, base.item, base.offset + more)
        elif found["number"]:
            for declared in _at_top(found["declared"]):
                name, _, expression = declared.partition("=")
                values[name.strip()] = _value(expression, values)
        elif found["cast"]:
            inner = body[found.end() : _closing(body, found.end() - 1)]
            name, _, offset = inner.partition("+")
            kind = _TYPE.fullmatch(found["kind"])
            if kind is not None and name.strip() in pointers:
                yield _access(pointers[name.strip()], offset, _bytes(kind), values)
        elif found["vector"]:
            inner = body[found.end() : _closing(body, found.end() - 1)]
            *_, offset, name = _at_top(inner)
            if name.strip() in pointers:
                to = pointers[name.strip()]
                lanes = int(found["lanes"] or 1)
                yield _access(to, f"({offset}) * {lanes}", to.item * lanes, values)
        elif found["array"] in pointers:
            inner = body[found.end() : _closing(body, found.end() - 1)]
            base = pointers[found["array"]]
            yield _access(base, inner, base.item, values)


def _access(
    base: _Pointer, offset: str, width: int, values: Mapping[str, Any]
) -> tuple[str, Any, int]:
    index = base.offset + (_value(offset, values) if offset.strip() else 0)
    return base.buffer, index * base.item, width


def _bytes(kind: re.Match[str]) -> int:
    return _SIZES[kind[1]] * int(kind[2] or 1)


def _at_top(text: str) -> Iterator[str]:
    """The parts between commas that no bracket encloses."""
    depth, first = 0, 0
    for i, c in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(c, 0)
        if c == "," and depth == 0:
            yield text[first:i]
            first = i + 1
    yield text[first:]


def _value(expression: str, values: Mapping[str, Any]) -> Any:
    """An integer expression of C for each lane; what is not known, as loaded data, is 0."""
    text = re.sub(rf"\((?:const )?{_INTEGER}\)", "", expression.strip())
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text).replace("/", "//")
    if re.search(r"[?&|!.\[{]", text):  # of data, or a choice
        return 0
    for name in set(re.findall(r"\b[A-Za-z_]\w*\b", text)) - values.keys():
        text = re.sub(rf"\b{name}\b(?!\s*\()", "0", text)
    try:
        return eval(text, dict(values))
    except (SyntaxError, NameError, TypeError, ZeroDivisionError, IndexError):
        return 0


def _lines(address: Any, width: int) -> int:
    """How many lines of memory the lanes touch."""
    first = np.broadcast_to(np.asarray(address, dtype=np.int64), (LANES,)) // LINE
    last = (np.broadcast_to(np.asarray(address, dtype=np.int64), (LANES,)) + width - 1) // LINE
    return len(set(first.tolist()) | set(last.tolist()))
