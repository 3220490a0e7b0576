"""Which entries stay when there are too many, and which files are leftovers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from store_samples import sample

from ocl_inductor.runtime.store.kernel_store import KernelStore
from ocl_inductor.runtime.store.usage import SizeGuard, evict, leftovers, scan


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(tmp_path / "kernels")


def _fill(store: KernelStore, count: int, nbytes: int = 10_000) -> list[str]:
    """Keys of ``count`` entries, the first one used the longest ago."""
    entries = [sample(text=str(n), binary=bytes(nbytes)) for n in range(count)]
    for n, e in enumerate(entries):
        store.write(e)
        at = time.time() - 1000 + n
        os.utime(store.path(e.key), (at, at))
    return [e.key for e in entries]


def _keys(store: KernelStore) -> set[str]:
    return {s.key for s in scan(store)}


def test_scan_says_what_is_there(store: KernelStore) -> None:
    first, second = _fill(store, 2)
    store.touch(first)
    store.touch(first)
    found = {s.key: s for s in scan(store)}
    assert (found[first].hits, found[second].hits) == (2, 0)
    assert abs(found[first].last_use - time.time()) < 60 < time.time() - found[second].last_use
    assert found[first].nbytes == store.path(first).stat().st_size
    assert scan(KernelStore(None)) == scan(KernelStore(store.folder / "no")) == []  # type: ignore[operator]


def test_the_least_recently_used_go_first(store: KernelStore) -> None:
    keys = _fill(store, 10)
    store.touch(keys[0])
    one = scan(store)[0].nbytes
    assert evict(store, 20 * one) == (0, 10 * one)
    removed, remaining = evict(store, 6 * one)
    assert removed == 5  # below 90 % of the limit
    assert remaining == 5 * one
    assert _keys(store) == {keys[0], *keys[6:]}
    assert not store.path(keys[1]).with_suffix(".used").exists()


def test_an_entry_larger_than_the_limit_does_not_stay(store: KernelStore) -> None:
    _fill(store, 1)
    assert evict(store, 100) == (1, 0)


def test_times_in_the_future_count_as_now_and_age_from_then(store: KernelStore) -> None:
    keys = _fill(store, 4)
    future = time.time() + 10 * 365 * 86400
    os.utime(store.path(keys[0]), (future, future))
    store.touch(keys[1])
    os.utime(store.path(keys[1]).with_suffix(".used"), (future, future))
    os.utime(store.path(keys[2]), (0, 0))  # a clock that was not set
    one = scan(store)[0].nbytes
    evict(store, 3 * one)
    assert _keys(store) == {keys[0], keys[1]}
    assert all(s.last_use < time.time() + 60 for s in scan(store))
    assert evict(store, 1) == (2, 0)


def test_leftovers(store: KernelStore) -> None:
    (key,) = _fill(store, 1)
    store.touch(key)
    shard = store.path(key).parent
    with store.building([key]):
        pass
    young = shard / "young.tmp"
    old, future, old_format, orphan = (
        shard / n for n in ("old.tmp", "future.tmp", f"{key[2:]}.bin", "gone.used")
    )
    for path in (young, old, future, old_format, orphan):
        path.write_bytes(b"x")
    now = time.time()
    for path, shift in ((old, -7200), (future, 7200), (orphan, -7200)):
        os.utime(path, (now + shift, now + shift))
    assert {f.path for f in leftovers(store, now)} == {old, future, old_format, orphan}


def test_guard_looks_when_there_is_reason(store: KernelStore) -> None:
    _fill(store, 10)
    one = scan(store)[0].nbytes
    guard = SizeGuard(store.folder, 12 * one)
    assert guard.wrote(0) == 0
    assert guard.seen is None  # nothing written, nothing looked at
    assert guard.wrote(one) == 0
    assert guard.seen == 10 * one
    for n in range(3):
        store.write(sample(text=f"more {n}", binary=bytes(10_000)))
    assert guard.wrote(3 * one) == 3
    assert len(_keys(store)) == 10


def test_foreign_things_in_the_folder_are_left_alone(store: KernelStore) -> None:
    (key,) = _fill(store, 1)
    assert store.folder is not None
    (store.folder / "notes.txt").write_text("mine")
    (store.folder / "ab" / "sub").mkdir(parents=True, exist_ok=True)
    (store.folder / "ab" / "sub" / "deep.txt").write_text("mine")
    (store.folder / "zz").mkdir()
    (store.folder / "zz" / "not-a-key.kernel").write_text("?")
    assert _keys(store) == {key}
    assert evict(store, 1)[0] == 1
    assert (store.folder / "notes.txt").exists()
    assert (store.folder / "ab" / "sub" / "deep.txt").exists()
