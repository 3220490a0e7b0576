"""Plans on disk: damage, permissions, limits, other backends' files."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from agreement import random
from plan_cache import Cache, doubled, program
from torch._dynamo.utils import counters

from ocl_inductor.capture.warm.warm_start import AOTAutogradCache
from ocl_inductor.runtime.store import artifacts
from ocl_inductor.runtime.store.plan_files import PlanFiles


def _truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _empty(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("damage", [_truncated, _empty, _flipped], ids=lambda f: f.__name__[1:])
def test_damaged_entries_are_misses(
    damage: Callable[[bytes], bytes], renamed: bool, cache: Cache
) -> None:
    """``renamed``: the file's name fits its damaged content, so that only reading it can tell."""
    if renamed and damage is _flipped:
        damage = _other_object
    assert cache.same(program, random(9, 17)) == "miss"
    (entry,) = cache.entries()
    content = damage(entry.read_bytes())
    entry.write_bytes(content)
    if renamed:
        entry.rename(entry.with_name(hashlib.sha256(content).hexdigest()))
    assert cache.same(program, random(9, 17)) == "miss"
    assert cache.same(program, random(9, 17)) == "hit"
    assert len(cache.entries()) == 1


def _other_object(data: bytes) -> bytes:
    return pickle.dumps({"not": "an entry"})


def test_entry_of_another_graph_is_not_taken(cache: Cache) -> None:
    """Somebody has moved files about: each plan says what it was made for."""
    x = random(6, 6)
    assert cache.same(doubled, x) == "miss"
    (entry,) = cache.entries()
    assert cache.same(doubled, x, profile="simt") == "miss"
    other = next(p for p in cache.entries() if p != entry)
    content = other.read_bytes()
    entry.unlink()
    (entry.parent / other.name).write_bytes(content)
    result = cache.run(doubled, x)
    torch.testing.assert_close(result, doubled(x))
    assert counters["opencl"]["plan_hits"] == 0


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for _ in range(2):
        assert Cache(blocked).same(doubled, random(5)) == "miss"


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_files_are_private(cache: Cache) -> None:
    cache.same(doubled, random(5))
    for path in [cache.folder / "plans", *(cache.folder / "plans").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_other_backends_keep_their_folder(cache: Cache, tmp_path: Path, monkeypatch) -> None:
    cache.same(doubled, random(5))  # the hooks are in place from here on
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    before = cache.entries()
    AOTAutogradCache._write_to_local_cache("akey", pickle.dumps([1, 2]))
    found = list(AOTAutogradCache.iterate_over_candidates(True, None, "akey"))
    assert [entry for entry, _, _ in found] == [[1, 2]]
    assert cache.entries() == before
    assert len([p for p in (tmp_path / "inductor").rglob("*") if p.is_file()]) == 1


def test_files_of_one_key(tmp_path: Path) -> None:
    files = PlanFiles(tmp_path / "plans")
    assert list(files.read("key")) == []
    files.write("key", b"first")
    files.write("key", b"second")
    files.write("key", b"second")
    assert sorted(files.read("key")) == [b"first", b"second"]
    files.remove("key", b"first")
    assert list(files.read("key")) == [b"second"]
    assert list(files.read("other")) == []


def test_artifacts_of_another_version_are_left_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", str(tmp_path))
    artifacts.KernelArtifact("ab" * 32, b"ocl-inductor kernel 0\nsomething").populate_cache()
    assert not list(tmp_path.rglob("*.kernel"))
    assert artifacts.loaded(artifacts.KERNEL, "ab" * 32) == []


def test_limit_on_what_plans_take(tmp_path: Path) -> None:
    files = PlanFiles(tmp_path / "plans", limit=350)
    for number in range(3):
        files.write(f"key{number}", bytes([number]) * 100)
        (path,) = (tmp_path / "plans" / f"key{number}").iterdir()
        os.utime(path, (1000 + number, 1000 + number))
    assert len(list(files.read("key0"))) == 1  # used now: the oldest is key1
    files.write("key3", b"x" * 100)
    assert [n for n in range(4) if list(files.read(f"key{n}"))] == [0, 2, 3]


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_files_that_others_can_write_are_not_read(tmp_path: Path) -> None:
    files = PlanFiles(tmp_path / "plans")
    files.write("key", b"content")
    (path,) = (tmp_path / "plans" / "key").iterdir()
    path.chmod(0o666)
    assert list(files.read("key")) == []
    path.chmod(0o600)
    assert list(files.read("key")) == [b"content"]
    (tmp_path / "plans").chmod(0o777)
    assert list(PlanFiles(tmp_path / "plans").read("key")) == []
