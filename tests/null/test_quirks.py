"""Quirks: what each known driver gets, and that names stay in this one file."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from ocl_inductor.device import quirks
from ocl_inductor.device.facts import DeviceInfo

INTEL = quirks.Names("Intel(R) OpenCL", "OpenCL 3.1 LINUX", "A CPU", "Intel(R)", "2026.1")
POCL30 = quirks.Names(
    "Portable Computing Language", "OpenCL 3.0 PoCL 3.0-rc2  Linux", "pthread-A CPU", "x", "3.0-rc2"
)
POCL31 = dataclasses.replace(POCL30, platform_version="OpenCL 3.0 PoCL 3.1+debian  Linux")
RUSTICL = quirks.Names("rusticl", "OpenCL 3.0", "llvmpipe (LLVM 15.0.6, 256 bits)", "Mesa", "22")
OTHER = quirks.Names("Some OpenCL", "OpenCL 3.0", "A GPU", "Somebody", "1")


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (INTEL, "intel"),
        (POCL30, "pocl-3.0"),
        (POCL31, "pocl-3.1"),
        (RUSTICL, "rusticl"),
        (OTHER, "some opencl"),
    ],
)
def test_short_names(names: quirks.Names, short: str) -> None:
    assert quirks.short_name(names) == short


def test_order_of_preference() -> None:
    order = sorted([RUSTICL, POCL30, OTHER, INTEL, POCL31], key=quirks.preference)
    assert order == [INTEL, POCL31, POCL30, OTHER, RUSTICL]
    assert quirks.preference(RUSTICL) >= quirks.LAST_RESORT


def test_changes() -> None:
    assert quirks.changes(OTHER) == {}
    assert quirks.changes(POCL30)["fast_fma"] is False
    assert "fast_fma" not in quirks.changes(POCL31)
    assert "erf" in quirks.changes(POCL30)["slow_builtins"]


@pytest.mark.parametrize(
    ("version", "taken"),
    [("3.1", True), ("4.0", False), ("5.0", False), ("6.0", False), ("7.1", True)],
)
def test_assembly_of_pocl(version: str, taken: bool) -> None:
    """Its compiler, from 4 to 6, ends the process at a statement of assembly."""
    names = dataclasses.replace(POCL30, platform_version=f"OpenCL 3.0 PoCL {version}+debian  Linux")
    assert quirks.changes(names)["inline_assembly"] is taken


def test_entries_change_existing_fields_and_say_why() -> None:
    known = {f.name for f in dataclasses.fields(DeviceInfo)}
    for quirk in quirks.QUIRKS:
        assert set(quirk.changes) <= known
        assert set(quirk.match) <= {f.name for f in dataclasses.fields(quirks.Names)}
        assert quirk.why


def test_no_vendor_name_elsewhere() -> None:
    # In code, not in prose: string literals and identifiers outside comments and docstrings.
    names = re.compile(r"intel\(r\)|\bpocl\b|portable computing|nvidia|rusticl|llvmpipe", re.I)
    package = Path(quirks.__file__).parents[1]
    for path in package.rglob("*.py"):
        if path.name == "quirks.py":
            continue
        for literal in _string_literals(path.read_text()):
            assert not names.search(literal), f"{path}: {literal!r}"


def _string_literals(source: str) -> list[str]:
    import ast

    tree = ast.parse(source)
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]
