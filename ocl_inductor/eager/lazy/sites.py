"""The line of the program that called an operator."""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch

#: A code object and an instruction in it; None: no Python called the operator.
Site: TypeAlias = tuple[CodeType, int] | None

_OURS = str(Path(__file__).parents[2])
_LIBRARIES = (str(Path(torch.__file__).parent), _OURS, "<")
_BACKWARD = "the backward pass"
#: How a graph's stack traces name a call, so that errors can name this record's line.
_MARK = re.compile(r'File "lazy graph", line (\d+), in call: [^)\n]*')

#: Whether the code of a file belongs to PyTorch or to this package.
_library: dict[str, bool] = {}


def site() -> Site:
    """The innermost call of the program itself."""
    frame: FrameType | None = sys._getframe(2).f_back  # what called the kernel
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        inside = _library.get(file)
        if inside is None:
            inside = _library[file] = file.startswith(_LIBRARIES)
        if not inside:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def text_of(where: Site) -> str:
    """``File "…", line …, in …: code``."""
    if where is None:
        return _BACKWARD
    code, instruction = where
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    source = linecache.getline(code.co_filename, line).strip()
    return f'File "{code.co_filename}", line {line}, in {code.co_name}: {source}'


def mark(number: int, operator: object) -> str:
    """A stack trace for the nodes of a record's call."""
    return f'  File "lazy graph", line {number}, in call\n    {operator}\n'


def marked(text: str) -> int | None:
    """The number of the call that a text of an error names."""
    found = _MARK.search(text)
    return None if found is None else int(found[1])


def with_lines(error: BaseException, sites: list[Site]) -> None:
    """Put the program's lines in the place of the marks of an error's message."""

    def line(found: re.Match[str]) -> str:
        number = int(found[1])
        return text_of(sites[number]) if number < len(sites) else found[0]

    def named(x: object) -> Any:
        return _MARK.sub(line, x) if isinstance(x, str) else x

    error.args = tuple(map(named, error.args))
    facts = getattr(error, "facts", None)
    if isinstance(facts, dict):
        facts.update({k: named(v) for k, v in facts.items()})


def add_line(error: BaseException, where: Site) -> None:
    """Have an error's message end with the program's line."""
    text, *rest = error.args or ("",)
    if isinstance(text, str):
        error.args = (f"{text} (called in {text_of(where)})", *rest)
