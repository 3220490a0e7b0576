"""Imports run one way: a module imports only its own layer's group or lower ones.

``LAYERS`` lists the top-level names of the package from low to high; names of one row may import
one another. ``FORBIDDEN`` adds rules that the order alone does not give. Every import counts,
lazy ones and those for type checking too.
"""

from __future__ import annotations

import ast
from pathlib import Path

import ocl_inductor

PACKAGE = Path(ocl_inductor.__file__).parent

LAYERS: list[set[str]] = [
    {"__init__"},
    {"errors", "temporary", "units", "whole_file"},
    {"described", "targets"},
    {"settings"},
    {"log"},
    {
        "dtypes",
        "debug",
        "fallback_log",
        "launch_example",
        "kernel_text",
        "private_folder",
        "torch_versions",
    },
    {"quirk", "quirks", "fork", "apart", "meanwhile"},
    {
        "builtin_check",
        "command_buffer",
        "compile_target",
        "core_costs",
        "cpu_caches",
        "cpu_flags",
        "device",
        "device_info",
        "amx",
        "calling_thread",
        "device_probe",
        "driver_code",
        "driver_library",
        "driver_processor",
        "driver_survey",
        "drivers",
        "unregistered",
    },
    {"diagnosis"},
    {"plan", "plan_bytes", "staged_plan"},
    {"runtime"},
    {"ir"},
    {"templates"},
    {"lowering"},
    {"schedule"},
    {"memory"},
    {"codegen"},
    {"verify"},
    {"report"},
    {"passes"},
    {"staging"},
    {"capture"},
    {"tune"},
    {"profiler"},
    {"simpler"},
    {"compile", "_autoload"},
    {"observe"},
    {"sweep"},
    {"cli"},
]

COMPILER = {
    "capture",
    "passes",
    "lowering",
    "ir",
    "schedule",
    "memory",
    "codegen",
    "templates",
    "staging",
    "compile",
}

FORBIDDEN: dict[str, set[str]] = {
    # A plan is replayed without the compiler, so that a warm start loads none of it.
    "runtime": COMPILER,
    "plan": COMPILER | {"runtime"},
    "plan_bytes": COMPILER | {"runtime"},
    "staged_plan": COMPILER | {"runtime"},
}


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _top(module: tuple[str, ...]) -> str:
    """The name below the package: ``ocl_inductor.ir.expr`` -> ``ir``; the package itself."""
    return module[1] if len(module) > 1 else "__init__"


def _module(path: Path) -> tuple[str, ...]:
    parts = ("ocl_inductor", *path.relative_to(PACKAGE).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def _imports(path: Path) -> list[tuple[int, str]]:
    """(line, top-level name) of each import of this package in a file."""
    module = _module(path)
    package = module if path.name == "__init__.py" else module[:-1]
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            targets = [tuple(a.name.split(".")) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            # `from ocl_inductor import x`: x may be a module.
            targets = [(*base, a.name) for a in node.names] if len(base) == 1 else [base]
        else:
            continue
        found += [(node.lineno, _top(t)) for t in targets if t and t[0] == "ocl_inductor"]
    return found


def _layer(top: str) -> int | None:
    return next((i for i, names in enumerate(LAYERS) if top in names), None)


def test_every_part_has_a_layer() -> None:
    unknown = {_top(_module(p)) for p in _files()} - set().union(*LAYERS)
    assert not unknown, f"add to LAYERS: {sorted(unknown)}"


def test_imports_run_one_way() -> None:
    wrong = []
    for path in _files():
        here = _top(_module(path))
        own = _layer(here)
        for line, target in _imports(path):
            other = _layer(target)
            if other is None or own is None:
                continue  # a name of __init__, or reported by the test above
            if other > own or target in FORBIDDEN.get(here, ()):
                wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {here} imports {target}")
    assert not wrong, "\n".join(wrong)
