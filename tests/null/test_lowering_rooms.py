"""The folders of ``ocl_inductor/lowering``: small, in one direction, and all registered."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ocl_inductor.lowering

PACKAGE = "ocl_inductor.lowering"
FOLDER = Path(ocl_inductor.lowering.__file__).parent

#: From low to high: a folder imports from itself and from lower ones. Modules that lie beside the
#: folders come above all of them.
ORDER = (
    "core pointwise random reduce views norms sort matmul conv conv_gradients attention indexing "
    "pooling resize ctc linalg recurrent complex graph"
).split()

#: Files of a folder, which a reader still takes in.
MOST_FILES = 15

REGISTRY = "ocl_inductor.operators.registry"
#: What puts a lowering into the registry, and the modules that only define it.
REGISTER = {"register", "register_by_name", "register_rows", "complex_rule", "enter"}
DEFINES = {
    f"{PACKAGE}.pointwise.rows",
    f"{PACKAGE}.complex.rules",
}

FILES = sorted(FOLDER.rglob("*.py"))


def _name(path: Path) -> str:
    return ".".join((PACKAGE, *path.relative_to(FOLDER).with_suffix("").parts))


def _imports(path: Path) -> list[tuple[str, set[str]]]:
    """Modules of lowering that a file imports, and the names that it takes from each."""
    found: list[tuple[str, set[str]]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(a.name, set()) for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, {a.name for a in node.names}))
    ours = (f"{PACKAGE}.", REGISTRY)
    return [(module, names) for module, names in found if module.startswith(ours)]


def _folder(module: str) -> str:
    return module.split(".")[2]


def test_every_folder_has_a_place() -> None:
    assert {p.name for p in FOLDER.iterdir() if p.is_dir() and any(p.glob("*.py"))} == {*ORDER}


@pytest.mark.parametrize("folder", ["", *ORDER])
def test_folders_are_small(folder: str) -> None:
    assert len(list((FOLDER / folder).glob("*.py"))) <= MOST_FILES


def test_folders_import_lower_ones() -> None:
    wrong = []
    for path in FILES:
        if path.parent == FOLDER:
            continue
        own = ORDER.index(path.parent.name)
        for module, _ in _imports(path):
            if module != REGISTRY and _folder(module) not in ORDER[: own + 1]:
                wrong.append(f"{path.relative_to(FOLDER)} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_modules_do_not_import_in_circles() -> None:
    modules = {_name(p) for p in FILES}
    below = {
        _name(p): {
            m
            for module, names in _imports(p)
            for m in (module, *(f"{module}.{n}" for n in names))
            if m in modules
        }
        for p in FILES
    }
    while below:
        lowest = [m for m, imported in below.items() if not imported & below.keys()]
        assert lowest, f"a circle among {sorted(below)}"
        for module in lowest:
            del below[module]


def test_what_registers_is_listed() -> None:
    listed = {module for module, _ in _imports(FOLDER / "families.py")}
    registers = {_name(p) for p in FILES for _, names in _imports(p) if names & REGISTER} - DEFINES
    assert listed == registers
