"""The table of patches: complete, one row a file, and a switch that refuses what has to stay on.

Nothing outside of ``ocl_inductor/patches`` changes PyTorch, pyopencl or the process, but for what a
row of the table names, and for programs whose process is ours alone.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ocl_inductor
from ocl_inductor.device.cpu import matrix_unit
from ocl_inductor.errors import RequiredPatchError, UnknownOptionError
from ocl_inductor.patches.process import amx_permission
from ocl_inductor.patches.switch import PATCHES_OFF, enabled, patches_off
from ocl_inductor.patches.table import PATCHES, Patch, patch_named
from ocl_inductor.settings import Settings

PACKAGE = Path(ocl_inductor.__file__).parent
#: Programs of ours, and processes that we start for one job.
OWN_PROCESSES = ("cli", "sweep", "runtime/build/worker.py", "device/probe_process.py")
#: Files of rows that lie elsewhere.
ELSEWHERE = {
    module.removeprefix("ocl_inductor.").replace(".", "/") + ".py"
    for module in (p.apply.partition(":")[0] for p in PATCHES)
    if not module.startswith("ocl_inductor.patches.")
}
#: Calls that change the process, PyTorch or pyopencl, by how they end.
CALLS = (
    "gc.freeze", "gc.unfreeze", "gc.disable", "gc.enable", "gc.set_threshold",
    "sys.setswitchinterval", "sys.setrecursionlimit", "sys.settrace", "sys.setprofile",
    "atexit.register", "os.register_at_fork", "signal.signal", "faulthandler.enable",
    "os.putenv", "os.environ.update", "os.environ.setdefault", "os.environ.pop",
    "os.sched_setaffinity", "os.nice", "os.chdir", "os.umask",
    "warnings.filterwarnings", "warnings.simplefilter",
    "config.patch", "callback.on_compile_start", "callback.on_compile_end",
    "torch.set_num_threads", "torch.set_default_dtype", "torch._C._set_mkldnn_enabled",
    "mha.set_fastpath_enabled", "torch_key.set",
)  # fmt: skip
#: Names of functions that do so on whatever they are called.
METHODS = (
    "register_start_callback", "register_end_callback", "addHandler", "_get_handlers",
)  # fmt: skip
#: Functions of the system, however they are taken from a library.
SYSTEM = ("madvise", "malloc_trim", "mallopt", "syscall", "prctl", "mlock")
_HOOK = re.compile(r"register_\w*hook")
TEXTS = ("/proc/self/mem", "/proc/self/clear_refs")


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of an expression; empty for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (inner := dotted(node.value)):
        return f"{inner}.{node.attr}"
    return ""


def foreign_names(tree: ast.Module) -> set[str]:
    """What a file imports from outside of this package."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.asname or a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not str(node.module).startswith("ocl_inductor"):
            found |= {a.asname or a.name for a in node.names}
    return found - {"annotations", "ocl_inductor"}


def changes(text: str) -> Iterator[str]:
    """Lines of a source that change what is not ours, each with what it does."""
    tree = ast.parse(text)
    foreign = foreign_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            method = name.rpartition(".")[2]
            if name.endswith(CALLS) or method in METHODS or _HOOK.fullmatch(method):
                yield f"{node.lineno}: {name}()"
            if name in ("setattr", "delattr") and dotted(node.args[0]).split(".")[0] in foreign:
                yield f"{node.lineno}: {name}({dotted(node.args[0])}, …)"
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = getattr(node, "targets", None) or [node.target]  # type: ignore[union-attr]
            for target in [t for x in targets for t in ast.walk(x)]:
                place = target.value if isinstance(target, ast.Subscript) else target
                name = dotted(place)
                stored = isinstance(getattr(target, "ctx", None), ast.Store | ast.Del)
                if stored and "." in name and name.split(".")[0] in foreign:
                    yield f"{node.lineno}: {name} = …"
        elif isinstance(node, ast.Attribute) and node.attr in SYSTEM:
            yield f"{node.lineno}: {node.attr}"
        elif isinstance(node, ast.FunctionDef):
            for decorator in map(dotted, node.decorator_list):
                if decorator.endswith(CALLS):
                    yield f"{node.lineno}: @{decorator}"
        elif isinstance(node, ast.Constant) and node.value in TEXTS:
            yield f"{node.lineno}: {node.value}"


def test_changes_are_found() -> None:
    """Those that were once in this package, in the forms that they had."""
    text = """
import gc, os, atexit, ctypes, torch, pyopencl
from pathlib import Path
from torch._dynamo import callback
from torch import nn
gc.freeze()
os.environ["A"] = "b"
callback.on_compile_start(f)
pyopencl.get_platforms = f
nn.Module._apply = f
setattr(pyopencl, name, True)
M = Path("/proc/self/mem")
advise = ctypes.CDLL(None).madvise
with torch._functorch.config.patch({}): pass
torch.x.y, other = 1, 2
@atexit.register
def g(): self.torch = 1
mine.torch.x = 3
"""
    lines = sorted({int(c.split(":")[0]) for c in changes(text)})
    assert lines == [*range(6, 16), 17]


def test_nothing_is_changed_outside() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(("patches/", *OWN_PROCESSES)) or name in ELSEWHERE:
            continue
        found += [f"{name}:{change}" for change in changes(path.read_text())]
    assert not found, "move to ocl_inductor/patches, with a row of the table:\n" + "\n".join(found)


def test_each_file_has_a_row() -> None:
    files = {p.stem for p in (PACKAGE / "patches").glob("*/*.py")} - {"__init__"}
    ours = {p.name for p in PATCHES if p.apply.startswith("ocl_inductor.patches.")}
    assert files == ours
    assert {p.stem for p in (PACKAGE / "patches").glob("*.py")} == {"__init__", "switch", "table"}
    assert len({p.name for p in PATCHES}) == len(PATCHES)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda p: p.name)
def test_row(patch: Patch) -> None:
    module, _, function = patch.apply.partition(":")
    assert callable(getattr(importlib.import_module(module), function))
    if module.startswith("ocl_inductor.patches."):
        assert module == f"ocl_inductor.patches.{patch.of.lower()}.{patch.name}"
    for text in (patch.what, patch.why, patch.tried):
        assert text and "|" not in text and "\n" not in text


@functools.cache
def asked_for() -> frozenset[str]:
    """The names that ``enabled`` is called with anywhere."""
    text = "\n".join(p.read_text() for p in PACKAGE.rglob("*.py"))
    return frozenset(re.findall(r"\benabled\(\"(\w+)\"\)", text))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda p: p.name)
def test_switch(patch: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that can be off is asked for somewhere; the others are refused, with the reason."""
    asked = patch.name in asked_for()
    assert asked == (patch.required is None)
    monkeypatch.setenv(PATCHES_OFF, f" {patch.name} ,")
    if patch.required is None:
        assert patches_off() == {patch.name}
        assert not enabled(patch.name)
        return
    with pytest.raises(RequiredPatchError, match=patch.name) as error:
        patches_off()
    assert patch.required in str(error.value)


def test_all_are_off_that_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATCHES_OFF, "all")
    assert patches_off() == {p.name for p in PATCHES if p.required is None}
    monkeypatch.setenv(PATCHES_OFF, "")
    assert patches_off() == frozenset()
    assert enabled("malloc_trim")


def test_names_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATCHES_OFF, "malloc_trim,garbage_colector")
    with pytest.raises(UnknownOptionError, match="Did you mean 'garbage_collector'"):
        enabled("malloc_trim")
    assert patch_named("garbage_colector") is None
    with pytest.raises(UnknownOptionError, match="garbage_colector"):
        Settings.resolve()


def test_the_matrix_unit_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(matrix_unit.sys, "platform", "linux")
    monkeypatch.setattr(matrix_unit.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(matrix_unit, "cpu_flags", lambda: set(matrix_unit._FLAGS))
    monkeypatch.setattr(amx_permission, "request", lambda: not asked.append(True))
    permitted = matrix_unit.permitted.__wrapped__
    monkeypatch.setenv(PATCHES_OFF, "amx_permission")
    assert not permitted() and not asked
    monkeypatch.delenv(PATCHES_OFF)
    assert permitted() and asked
