"""The cache folder where others can write: nothing of theirs is used, and nothing of ours is lost.

``Kept`` is one part of the cache as the package uses it: each is asked the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from other_user import NOBODY, as_nobody, needs_another_user, open_to_all, place
from store_samples import sample

from ocl_inductor.capture.warm import torch_sources
from ocl_inductor.cli import main
from ocl_inductor.cli.cache import upkeep
from ocl_inductor.device import probe
from ocl_inductor.device.driver import discovery, inventory
from ocl_inductor.runtime.store import artifacts
from ocl_inductor.runtime.store.entry import DamagedEntryError, encode
from ocl_inductor.runtime.store.kernel_store import KernelStore
from ocl_inductor.runtime.store.plan_files import PlanFiles
from ocl_inductor.runtime.store.plan_scan import plan_name
from ocl_inductor.support import json_cache
from ocl_inductor.support.private_folder import DistrustedError, PrivateFolder

__all__ = ["place"]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="permission bits and links")

ENTRY = sample()
NAMES = ("libdriver.so",)
DIGEST = bytes(range(32))


@dataclass(frozen=True)
class Kept:
    """One folder of the cache: what is kept there under one name, and how it is asked for."""

    kind: str
    write: Callable[[Path], object]
    found: Callable[[Path], bool]


def _store(root: Path) -> KernelStore:
    return KernelStore(root / "kernels")


def _kernel_found(root: Path) -> bool:
    with contextlib.suppress(DamagedEntryError):
        return _store(root).read(ENTRY.key) is not None
    return False


def _driver(parts: tuple[str, ...] = ()) -> tuple[inventory.Library, ...]:
    return (inventory.Library(NAMES[0], (), parts),)


def _survey_key() -> str:
    return inventory._key(NAMES)


KEPT = (
    Kept("kernels", lambda root: _store(root).write(ENTRY), _kernel_found),
    Kept(
        "plans",
        lambda root: PlanFiles(root / "plans").write("key", b"plan"),
        lambda root: list(PlanFiles(root / "plans").read("key")) == [b"plan"],
    ),
    Kept(
        "drivers",
        lambda root: inventory._remember(_survey_key(), _driver()),
        lambda root: inventory._remembered(_survey_key(), NAMES) is not None,
    ),
    Kept(
        "probe",
        lambda root: probe._answered("zero_copy", "a driver", lambda: True),
        lambda root: probe._remembered("zero_copy", "a driver") is not None,
    ),
    Kept(
        "roofs",
        lambda root: json_cache.save(PrivateFolder(root).folder("roofs"), "key", {"a": 1}),
        lambda root: json_cache.load(PrivateFolder(root).folder("roofs"), "key") == {"a": 1},
    ),
    Kept(
        "torch",
        lambda root: torch_sources._remember(PrivateFolder(root).folder("torch"), "s", DIGEST),
        lambda root: torch_sources._remembered(PrivateFolder(root).folder("torch"), "s") == DIGEST,
    ),
)
each_kind = pytest.mark.parametrize("part", KEPT, ids=lambda part: part.kind)


@pytest.fixture
def root(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder that is not there yet."""
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(place / "cache"))
    yield place / "cache"


def _below(root: Path) -> list[Path]:
    return [root, *root.rglob("*")]


def _only_file(folder: Path) -> Path:
    (path,) = (p for p in folder.rglob("*") if p.is_file())
    return path


# -- folders of ours -----------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("umask", [0o002, 0])
def test_everything_is_private_whatever_the_umask(root: Path, part: Kept, umask: int) -> None:
    before = os.umask(umask)
    try:
        part.write(root)
    finally:
        os.umask(before)
    assert part.found(root)
    for path in _below(root):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@needs_another_user
@each_kind
def test_nobody_else_gets_in(root: Path, part: Kept) -> None:
    old = os.umask(0)
    try:
        part.write(root)
    finally:
        os.umask(old)
    file = _only_file(root / part.kind)
    assert not as_nobody(file.read_bytes)
    assert not as_nobody(lambda: (root / part.kind / "new").write_text("x"))
    assert not as_nobody((root / "new").mkdir)


@each_kind
@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_an_empty_folder_is_made_private(root: Path, part: Kept, mode: int) -> None:
    """As somebody makes it by hand under umask 022 or 002 before the first use."""
    for folder in (root, root / part.kind):
        folder.mkdir()
    for folder in (root / part.kind, root) if mode == 0o755 else (root / part.kind,):
        folder.chmod(mode)
    part.write(root)
    assert part.found(root)
    assert all(p.stat().st_mode & 0o077 == 0 for p in _below(root))


def test_a_root_with_other_things_in_it_keeps_its_mode(root: Path) -> None:
    root.mkdir()
    (root / "thesis.tex").write_text("mine")
    root.chmod(0o755)
    _store(root).write(ENTRY)
    assert root.stat().st_mode & 0o777 == 0o755
    assert (root / "kernels").stat().st_mode & 0o777 == 0o700
    assert _kernel_found(root)


# -- folders that others can write, or have ------------------------------------------------


@each_kind
@pytest.mark.parametrize("where", ["root", "kind", "file"])
@pytest.mark.parametrize("mode", [0o020, 0o002], ids=["group", "all"])
def test_what_others_could_have_written_is_not_used(
    root: Path, part: Kept, where: str, mode: int
) -> None:
    part.write(root)
    assert part.found(root)
    file = _only_file(root / part.kind)
    place = {"root": root, "kind": root / part.kind, "file": file}[where]
    before = place.stat().st_mode
    place.chmod(before | mode)
    assert not part.found(root)
    if where != "file":
        content = file.read_bytes()
        part.write(root)
        assert file.read_bytes() == content
    assert place.stat().st_mode == before | mode or where == "file"


@needs_another_user
@each_kind
@pytest.mark.parametrize("where", ["root", "kind", "shard", "file"])
def test_what_another_user_put_there_is_not_used(root: Path, part: Kept, where: str) -> None:
    part.write(root)
    file = _only_file(root / part.kind)
    owned = {"root": root, "kind": root / part.kind, "shard": file.parent, "file": file}[where]
    for path in _below(owned):
        os.chown(path, NOBODY, NOBODY)
    assert not part.found(root)
    if where != "file":
        content = file.read_bytes()
        part.write(root)
        assert file.read_bytes() == content and file.stat().st_uid == NOBODY


@needs_another_user
@each_kind
@pytest.mark.parametrize("where", ["root", "kind"])
def test_a_link_leads_nowhere(root: Path, place: Path, part: Kept, where: str) -> None:
    """Another user has linked a folder of ours into the cache: it keeps its mode and content."""
    mine = place / "mine"
    mine.mkdir()
    mine.chmod(0o750)
    link = root if where == "root" else root / part.kind
    open_to_all(link.parent)
    assert as_nobody(lambda: link.symlink_to(mine))
    link.parent.chmod(0o700)  # seen too late
    part.write(root)
    assert not part.found(root)
    assert mine.stat().st_mode & 0o777 == 0o750 and list(mine.iterdir()) == []
    assert "is a link" in PrivateFolder(root).folder(part.kind).refusal()


@needs_another_user
def test_a_shard_and_a_file_that_are_links(root: Path, place: Path) -> None:
    store = _store(root)
    store.write(ENTRY)
    path, mine = store.path(ENTRY.key), place / "mine"
    mine.mkdir(mode=0o750)
    (mine / path.name).write_bytes(path.read_bytes())
    opened = (root, root / "kernels", path.parent)
    open_to_all(*opened)
    path.unlink()
    assert as_nobody(lambda: path.symlink_to(mine / path.name))
    used = path.with_suffix(".used")
    assert as_nobody(lambda: used.symlink_to(mine / "diary"))
    for folder in opened:
        folder.chmod(0o700)  # seen too late
    assert not _kernel_found(root)
    store.touch(ENTRY.key)
    assert not (mine / "diary").exists()
    assert store.write(ENTRY) and _kernel_found(root)  # the link is replaced
    assert not path.is_symlink()
    path.unlink()
    used.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(mine)
    assert not _kernel_found(root) and store.write(ENTRY) == 0
    assert [p.name for p in mine.iterdir()] == [path.name] and mine.stat().st_mode & 0o777 == 0o750


def test_clear_follows_no_link(root: Path, place: Path) -> None:
    mine = place / "mine"
    mine.mkdir()
    (mine / "notes.json").write_text("{}")
    for kind in ("kernels", "drivers"):
        root.mkdir(exist_ok=True, mode=0o700)
        (root / "roofs").mkdir(exist_ok=True, mode=0o700)
        (root / "drivers" if kind == "drivers" else root / "roofs" / "link").symlink_to(mine)
    result = CliRunner().invoke(main, ["cache", "--cache-dir", str(root), "clear", "--yes"])
    assert result.exit_code == 0, result.output
    assert (mine / "notes.json").exists()


# -- planted with care ---------------------------------------------------------------------


@needs_another_user
def test_a_planted_survey_opens_no_library(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = inventory.text_of(_driver(("/tmp/evil.so",)))
    planted = {"files": [], "stamps": [], "found": evil}
    document = json.dumps({"key": _survey_key(), "value": planted})
    path = root / "drivers" / json_cache.name_of(_survey_key())
    open_to_all(root, path.parent)
    assert as_nobody(lambda: path.write_text(document))
    monkeypatch.setattr(inventory, "_ask", lambda names: _driver())
    for made_private in ((), (path.parent,), (path.parent, root)):
        for folder in made_private:
            folder.chmod(0o700)
        assert inventory.survey(NAMES) == _driver()
    # What was asked now has taken the planted file's place.
    assert path.stat().st_uid == os.geteuid() and "evil" not in path.read_text()


@needs_another_user
def test_a_planted_vendor_folder_is_not_shown_to_the_loader(root: Path) -> None:
    open_to_all(root, root / "icd")

    def plant() -> None:
        for digest in ("0123456789abcdef", "fedcba9876543210"):
            (root / "icd" / digest).mkdir()
            (root / "icd" / digest / "99.icd").write_text("/tmp/evil.so\n")

    assert as_nobody(plant)
    with discovery.vendor_folder(["/usr/lib/libgood.so"]) as folder:
        assert [p.read_text() for p in folder.iterdir()] == ["/usr/lib/libgood.so\n"]
        assert not as_nobody(lambda: (folder / "99.icd").write_text("/tmp/evil.so\n"))


@needs_another_user
def test_a_planted_binary_and_plan_reach_nobody(root: Path) -> None:
    """Whole entries, with digests that are right."""
    evil = sample(binary=b"\x7fELF evil")
    assert evil.key == ENTRY.key
    path = root / "kernels" / evil.key[:2] / f"{evil.key[2:]}.kernel"
    plan = root / "plans" / "key" / plan_name(b"evil")
    folders = (path.parent, path.parent.parent, plan.parent, plan.parent.parent, root)
    open_to_all(*folders)
    assert as_nobody(lambda: (path.write_bytes(encode(evil)), plan.write_bytes(b"evil")))
    for folder in (None, *folders[::-1]):
        if folder is not None:
            folder.chmod(0o700)  # seen too late
        assert not _kernel_found(root)
        assert list(PlanFiles(root / "plans").read("key")) == []
    # In folders that are private again, ours take the place of theirs.
    assert _store(root).write(ENTRY) and _kernel_found(root)


@pytest.mark.parametrize(
    "name", ["../evil", "../../evil", "/tmp/evil", "a/b", "..", ".", "", "a\0b", "a\nb", "a\x1b[1m"]
)
def test_artifacts_are_kept_below_the_cache_or_not_at_all(root: Path, name: str) -> None:
    root.mkdir(mode=0o700)
    (root / "plans").mkdir(mode=0o700)
    artifacts.PlanArtifact(name, b"evil").populate_cache()
    artifacts.KernelArtifact(name, encode(dataclasses.replace(ENTRY, key=name))).populate_cache()
    assert [p for p in root.parent.rglob("*") if p.is_file()] == []
    files = PlanFiles(root / "plans")
    assert list(files.read(name)) == []
    files.remove(name, b"evil")  # no error
    with pytest.raises(DistrustedError):
        PrivateFolder(root).folder(name)
    with pytest.raises(DistrustedError):
        PrivateFolder(root).write(name, b"evil")


def test_what_has_no_name_of_ours_is_not_there(root: Path) -> None:
    _store(root).write(ENTRY)
    files = PlanFiles(root / "plans")
    files.write("key", b"plan")
    odd = root / "plans" / "red\x1b[31m"
    odd.mkdir()
    (odd / plan_name(b"odd")).write_bytes(b"odd")
    (root / "plans" / "key" / "notes").write_bytes(b"odd")
    (root / "kernels" / "zz").mkdir()
    (root / "kernels" / "zz" / "x\x1b[31m.kernel").write_bytes(encode(ENTRY))
    (root / "probe\x1b[31m").mkdir()
    assert list(files.read("key")) == [b"plan"]
    for command in (("list",), ("list", "--plans"), ("stats",)):
        said = _cache(root, *command)
        assert "\x1b" not in said and ("1 plan" if "--plans" in command else "1 kernel,") in said


# -- hostile metadata ----------------------------------------------------------------------

HOSTILE = "x\x1b[31m\x07\r\n\x9b2J\u202e\ud800y"


def _cache(root: Path, *arguments: str, exit_code: int = 0) -> str:
    command = ["cache", "--cache-dir", str(root), *arguments]
    result = CliRunner().invoke(main, command, env={"COLUMNS": "4000"})
    assert result.exit_code == exit_code, result.output
    return result.output


def _hostile() -> Any:
    """A valid entry each text of which would steer a terminal."""
    device = {f.name: f"{f.name}{HOSTILE}" for f in dataclasses.fields(ENTRY.metadata.device)}
    entry = sample(
        text="\x1b[2J\x9b",
        device=dataclasses.replace(ENTRY.metadata.device, **{**device, "key": "device|1.0"}),
        operators=(f"aten{HOSTILE}",),
    )
    launch = dataclasses.replace(entry.metadata.launch, buffers=((f"float32{HOSTILE}", 128),))  # type: ignore[type-var]
    texts = {k: f"{k}{HOSTILE}" for k in ("name", "user_code")}
    metadata = dataclasses.replace(
        entry.metadata, **texts, fx_nodes=(f"node{HOSTILE}",), launch=launch
    )
    return dataclasses.replace(entry, metadata=metadata)


def test_the_commands_print_nothing_that_steers_a_terminal(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "present_devices", dict)
    store, entry = _store(root), _hostile()
    assert store.write(entry) and store.write(ENTRY)
    key = entry.key[:12]
    said = {
        "list": _cache(root, "list"),
        "show": _cache(root, "show", key),
        "stats": _cache(root, "stats"),
        "diff": _cache(root, "diff", key, ENTRY.key[:12]),
        "bench": _cache(root, "bench", key, exit_code=1),
        "hint": _cache(root, "show", "namex", exit_code=2),
        "verify": _cache(root, "verify"),
        "prune": _cache(root, "prune", "--absent", "--dry-run"),
        "json": _cache(root, "list", "--json"),
    }
    for command, text in said.items():
        bad = {c for c in text if not c.isprintable() and c not in "\n\t"}
        assert not bad, (command, bad)
    shown = r"x\x1b[31m\x07\r\n\x9b2J\u202e\ud800y"
    assert f"name{shown}" in said["list"] and f"name{shown}" in said["hint"]
    for what in ("name", "aten", "node", "user_code", "spec", "driver_version", "float32"):
        assert f"{what}{shown}" in said["show"], what
    assert r"// \x1b[2J\x9b" in said["show"] and r"\x1b[2J" in said["diff"]
    # For a program, exactly what the driver got.
    assert _cache(root, "source", key).rstrip("\n") == entry.source.rstrip("\n")


@pytest.mark.parametrize("symbol", ["", "a b", "a\0b", "\ud800", f"x{HOSTILE}"], ids=ascii)
def test_a_symbol_that_cannot_be_is_damage(root: Path, symbol: str) -> None:
    """It would go to the driver."""
    metadata = dataclasses.replace(ENTRY.metadata, symbol=symbol)
    assert _store(root).write(dataclasses.replace(ENTRY, metadata=metadata))
    assert not _kernel_found(root)


@pytest.mark.parametrize(
    "change",
    [
        {"flops": 10**400},
        {"bytes": -1},
        {"global_size": (2**63,)},
        {"buffers": (("float32", -1),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_numbers_that_cannot_be_are_damage(root: Path, change: dict[str, Any]) -> None:
    launch = dataclasses.replace(ENTRY.metadata.launch, **change)  # type: ignore[type-var]
    entry = dataclasses.replace(ENTRY, metadata=dataclasses.replace(ENTRY.metadata, launch=launch))
    assert _store(root).write(entry)
    assert not _kernel_found(root)
    assert "damaged" in _cache(root, "list")
    assert "cannot be used" in _cache(root, "show", ENTRY.key[:8], exit_code=1)
