"""The folder of kernels without a driver: format, damage, trust, writing."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from store_samples import sample

from ocl_inductor.runtime.store import kernel_store as store_module
from ocl_inductor.runtime.store.entry import (
    DamagedEntryError,
    decode,
    encode,
    make_key,
    read_metadata,
    salvage,
)
from ocl_inductor.runtime.store.kernel_store import KernelStore
from ocl_inductor.support import private_folder
from ocl_inductor.support.private_folder import PrivateFolder

posix = pytest.mark.skipif(os.name != "posix", reason="permission bits and owners")


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(tmp_path / "cache" / "kernels")


def test_written_and_read_back(store: KernelStore) -> None:
    entry = sample()
    assert store.read(entry.key) is None
    assert store.write(entry) == store.path(entry.key).stat().st_size
    assert store.read(entry.key) == entry
    with store.path(entry.key).open("rb") as file:
        assert read_metadata(file) == entry.metadata
    store.remove(entry.key)
    assert store.read(entry.key) is None


def test_a_later_write_replaces(store: KernelStore) -> None:
    first, second = sample(), sample(binary=b"another")
    assert first.key == second.key
    store.write(first)
    store.write(second)
    assert store.read(first.key) == second
    assert len([p for p in store.folder.rglob("*") if p.is_file()]) == 1  # type: ignore[union-attr]


def test_without_a_folder_nothing_happens() -> None:
    store = KernelStore(None)
    entry = sample()
    assert store.write(entry) == 0
    assert store.read(entry.key) is None
    store.touch(entry.key)
    store.remove(entry.key)
    with store.building([entry.key]):
        pass


def test_any_changed_byte_is_noticed() -> None:
    entry = sample()
    data = encode(entry)
    assert decode(entry.key, data) == entry
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1 + random.Random(position).randrange(255)
        with pytest.raises(DamagedEntryError):
            decode(entry.key, bytes(changed))
    for length in range(len(data)):
        with pytest.raises(DamagedEntryError):
            decode(entry.key, data[:length])
    with pytest.raises(DamagedEntryError):
        decode(entry.key, data + b"\0")
    with pytest.raises(DamagedEntryError):
        decode(sample(text="other").key, data)


def test_nothing_of_damage_escapes_as_another_error() -> None:
    """Heads that are not what we wrote, under a digest or without one."""
    entry = sample()
    data = encode(entry)
    choose = random.Random(0)
    for _ in range(300):
        start = choose.randrange(len(data))
        piece = bytes(choose.randrange(256) for _ in range(choose.randrange(40)))
        changed = data[:start] + piece + data[start + choose.randrange(40) :]
        if changed == data:
            continue
        saved = salvage(entry.key, changed)
        assert saved is None or saved[1] == entry.source
        with contextlib.suppress(DamagedEntryError):
            read_metadata(io.BytesIO(changed))


def test_a_well_formed_entry_of_another_key_is_refused() -> None:
    """A digest that matches does not make a kernel pass for another one."""
    a, b = sample(text="a"), sample(text="b")
    with pytest.raises(DamagedEntryError, match="not the entry that its name says"):
        decode(a.key, encode(dataclasses.replace(b, key=a.key)))


def test_the_source_survives_a_damaged_binary() -> None:
    entry = sample()
    data = bytearray(encode(entry))
    data[-1] ^= 1
    assert salvage(entry.key, bytes(data)) == (entry.metadata, entry.source)
    assert salvage(entry.key, bytes(data[: len(data) // 3])) is None
    assert salvage(sample(text="other").key, bytes(data)) is None


def test_keys_differ_where_parts_do() -> None:
    keys = {
        make_key("ab", ("c",), "d"),
        make_key("a", ("bc",), "d"),
        make_key("ab", ("c", ""), "d"),
        make_key("ab", (), "dc"),
        make_key("ab", ("c",), "e"),
    }
    assert len(keys) == 5


def test_hits_are_counted(store: KernelStore) -> None:
    entry = sample()
    store.write(entry)
    threads = [threading.Thread(target=store.touch, args=(entry.key,)) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert store.path(entry.key).with_suffix(".used").stat().st_size == 20


# -- trust ---------------------------------------------------------------------------------


@posix
def test_folder_and_files_are_private(store: KernelStore) -> None:
    old = os.umask(0)
    try:
        entry = sample()
        store.write(entry)
        store.touch(entry.key)
        with store.building([entry.key]):
            pass
    finally:
        os.umask(old)
    assert store.folder is not None
    assert store.folder.parent.stat().st_mode & 0o777 == 0o700
    assert store.folder.stat().st_mode & 0o777 == 0o700
    for p in store.folder.rglob("*"):
        assert p.stat().st_mode & 0o777 == (0o700 if p.is_dir() else 0o600), p


@posix
def test_a_folder_that_others_can_read_is_made_private(store: KernelStore) -> None:
    assert store.folder is not None
    store.folder.mkdir(parents=True)
    store.folder.chmod(0o755)
    assert KernelStore(store.folder).folder == store.folder
    assert store.folder.stat().st_mode & 0o777 == 0o700


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_can_write_is_not_used(
    store: KernelStore, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder = store.folder
    assert folder is not None
    store.write(sample())
    folder.chmod(mode)
    for _ in range(3):
        assert KernelStore(folder).folder is None
    said = [r for r in caplog.records if "can be written by other users" in r.getMessage()]
    assert len(said) == 1


@posix
def test_a_folder_of_another_user_is_not_used(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(sample())
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert KernelStore(store.folder).folder is None
    assert "another user" in PrivateFolder.at(store.folder).refusal()  # type: ignore[arg-type]


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("in the way")
    assert KernelStore(tmp_path / "kernels").folder is None


def _link(path: Path, elsewhere: Path) -> None:
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _pipe(path: Path, elsewhere: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, elsewhere: Path) -> None:
    path.unlink()
    path.mkdir()


def _writable(path: Path, elsewhere: Path) -> None:
    path.chmod(0o666)


@posix
@pytest.mark.parametrize("change", [_link, _pipe, _folder, _writable])
def test_what_is_not_a_plain_file_of_ours_is_damage(
    store: KernelStore, tmp_path: Path, change: object
) -> None:
    entry = sample()
    store.write(entry)
    change(store.path(entry.key), tmp_path / "elsewhere")  # type: ignore[operator]
    with pytest.raises(DamagedEntryError):
        store.read(entry.key)
    if change is not _folder:
        assert store.write(entry)
        assert store.read(entry.key) == entry


# -- writing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "read-only"), (errno.EIO, "")],
)
def test_a_disk_that_refuses_is_said_once(
    store: KernelStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
    words: str,
) -> None:
    good = sample(text="before")
    store.write(good)

    def refuse(*args: object, **more: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", refuse)
    for text in "abc":
        assert store.write(sample(text=text)) == 0
    said = [r for r in caplog.records if "not kept" in r.getMessage()]
    assert len(said) == 1
    assert words in said[0].getMessage()
    assert not list(store.folder.rglob("*.tmp"))  # type: ignore[union-attr]
    assert store.read(good.key) == good


def test_a_lock_that_cannot_be_had_does_not_stop(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = sample().key
    monkeypatch.setattr(store_module, "BUILD_WAIT_SECONDS", 0.05)
    with store.building([key]), store.building([key]):
        pass
    shutil.rmtree(store.folder)  # type: ignore[arg-type]
    store.folder.write_text("in the way")  # type: ignore[union-attr]
    with store.building([key]):
        pass


def test_those_who_miss_different_kernels_of_a_batch_wait_for_each_other(
    store: KernelStore,
) -> None:
    keys = [sample(text=str(n)).key for n in range(4)]
    order: list[str] = []

    def other() -> None:
        with store.building(keys[3:]):
            order.append("the last kernel")

    with store.building(keys):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.3)
        order.append("all kernels")
    thread.join()
    assert order == ["all kernels", "the last kernel"]


def test_those_who_build_the_same_in_another_order_take_turns(store: KernelStore) -> None:
    keys = [sample(text=str(n)).key for n in range(8)]
    inside: list[int] = []
    together: list[int] = []

    def build(mine: list[str]) -> None:
        for turn in range(20):
            with store.building(mine):
                inside.append(turn)
                together.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=build, args=(k,)) for k in (keys, keys[::-1])]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert together == [1] * 40


def test_an_error_while_building_gets_out_and_frees_the_lock(store: KernelStore) -> None:
    key = sample().key
    with pytest.raises(ZeroDivisionError), store.building([key]):
        raise ZeroDivisionError
    with store.building([key]):
        pass


def test_the_store_needs_no_torch() -> None:
    """So that ``ocl-inductor cache list`` answers at once."""
    code = "import sys, ocl_inductor.cli.cache; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_threads_warn_once_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up fails the writes of all threads at the same moment."""
    said: list[str] = []

    def slowly(form: str, message: str) -> None:
        time.sleep(0.05)
        said.append(message)

    monkeypatch.setattr(private_folder._log, "warning", slowly)
    threads = [
        threading.Thread(target=private_folder.warn_once, args=("no room in here",))
        for _ in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert said == ["no room in here"]
