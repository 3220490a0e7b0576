"""Comments and docstrings name what acts: the caller, another process, a kernel."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import ocl_inductor

PACKAGE = Path(ocl_inductor.__file__).parent

_VAGUE = re.compile(r"\b(nobody|somebody|whoever)\b", re.IGNORECASE)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _prose(path: Path) -> Iterator[str]:
    """The comments and docstrings of a module; the whole of a template."""
    if path.suffix != ".py":
        yield path.read_text()
        return
    with path.open("rb") as file:
        yield from (
            t.string for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT
        )
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, _DOCUMENTED):
            yield ast.get_docstring(node) or ""


def test_no_vague_subjects() -> None:
    paths = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.jinja")]
    assert len(paths) > 100
    found = {
        f"{path.relative_to(PACKAGE)}: {match.group()}"
        for path in paths
        for text in _prose(path)
        for match in _VAGUE.finditer(text)
    }
    assert not found, sorted(found)


@pytest.mark.parametrize(
    "source",
    ['"""Nobody reads it."""', "x = 1  # whoever", 'def f():\n    """Of\n\n    somebody."""'],
)
def test_prose_is_found(tmp_path: Path, source: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert any(_VAGUE.search(text) for text in _prose(path))


def test_strings_are_no_prose(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""A module."""\nuser = "nobody"\n')
    assert not any(_VAGUE.search(text) for text in _prose(path))
