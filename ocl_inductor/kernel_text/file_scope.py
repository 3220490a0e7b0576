"""OpenCL C text as definitions at file scope: what two kernels need to share one program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_REST_OF_TYPE = re.compile(rf"\s*(?:{_ATTRIBUTE.pattern}\s*)?(?:\w+\s*)?;")
_KERNEL_HEAD = re.compile(r"void\s+(\w+)\s*\((.*)\)\s*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Definition:
    """A type, function, constant or macro with its ``name``; a pragma has none."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel's ``parameters`` as they are written, what is between its braces, and all of it."""

    name: str
    parameters: str
    body: str
    text: str


def definitions(text: str) -> Iterator[Definition | KernelText]:
    """What ``text`` defines, in its order, without comments between definitions.

    Raises:
        ValueError: something at file scope is neither of the kinds that our kernels consist of.
    """
    for piece in _pieces(text):
        bare = _ATTRIBUTE.sub("", _COMMENT.sub("", piece)).strip()
        if not bare:
            continue
        if bare.startswith("#"):
            words = bare.split(None, 2)
            macro = re.match(r"\w+", words[1]) if words[0] == "#define" else None
            if words[0] not in ("#define", "#pragma"):
                raise ValueError(f"{words[0]} at file scope")
            yield Definition(macro[0] if macro else "", piece.strip())
        elif bare.startswith("__kernel"):
            head, _, rest = piece.partition("{")
            found = _KERNEL_HEAD.search(_ATTRIBUTE.sub("", _COMMENT.sub("", head)))
            if found is None:
                raise ValueError("a kernel without a body")
            body = rest.rpartition("}")[0].strip("\n")
            yield KernelText(found[1], found[2].strip(), body, piece.strip())
        else:
            yield Definition(_name(bare), piece.strip())


def is_function(definition: Definition) -> bool:
    """Whether it is a function with a body."""
    bare = _ATTRIBUTE.sub("", _COMMENT.sub("", definition.text)).strip()
    return bare.endswith("}") and not bare.startswith("#")


def _pieces(text: str) -> Iterator[str]:
    """Directives with their lines, and what ends with a semicolon or a brace outside of all."""
    start, depth, position = 0, 0, 0
    while position < len(text):
        comment = _COMMENT.match(text, position)
        if comment:
            position = comment.end()
            continue
        character = text[position]
        position += 1
        if character == "#" and depth == 0:
            while True:
                end = text.find("\n", position)
                end = len(text) if end < 0 else end
                if text[end - 1] != "\\":
                    break
                position = end + 1
            yield text[start:end]
            start = position = end
        elif character in "({[":
            depth += 1
        elif character in ")}]":
            depth -= 1
        function_ends = character == "}" and depth == 0 and not _goes_on(text, position)
        if function_ends or (character == ";" and depth == 0):
            yield text[start:position]
            start = position
    yield text[start:]


def _goes_on(text: str, position: int) -> bool:
    """Whether a declaration follows a brace: of a struct's name, or after an initialiser."""
    return _REST_OF_TYPE.match(text, position) is not None


def _name(declaration: str) -> str:
    """The name that a declaration without comments and attributes gives."""
    head = re.split(r"[({=\[]", declaration, maxsplit=1)[0]
    if declaration.startswith("typedef"):
        head = re.sub(r"\{.*\}", "", declaration, flags=re.DOTALL).rstrip(";")
    words = re.findall(r"\w+", head)
    if len(words) < 2:
        raise ValueError(f"no name in {declaration[:60]!r}")
    return str(words[-1])
