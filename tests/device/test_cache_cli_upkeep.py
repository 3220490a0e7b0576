"""``ocl-inductor cache verify|prune|clear``."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

from cache_commands import entries, paths, run, run_json
from store_samples import other_device, sample

from ocl_inductor.runtime.store.kernel_store import KernelStore


def test_verify_finds_and_repairs(folder: Path) -> None:
    store = KernelStore(folder / "kernels")
    assert {f["status"] for f in run_json(folder, "verify")} == {"ok"}
    stored = entries(folder)
    binary_damaged, head_damaged, rejected = stored[:3]
    path = store.path(binary_damaged.key)
    path.write_bytes(path.read_bytes()[:-7])
    store.path(head_damaged.key).write_bytes(b"x" * 100)
    store.write(dataclasses.replace(rejected, binary=b"\x7fELF" + b"nonsense" * 100))
    bad = {
        f["key"]: (f["status"], f["action"])
        for f in run_json(folder, "verify", exit_code=1)
        if f["status"] != "ok"
    }
    assert bad == {
        binary_damaged.key: ("damaged", ""),
        head_damaged.key: ("damaged", ""),
        rejected.key: ("rejected", ""),
    }
    text = run(folder, "verify", "--repair").stdout
    assert "3 bad" in text and text.count("rebuilt") == 2 and text.count("removed") == 1
    assert {f["status"] for f in run_json(folder, "verify")} == {"ok"}
    again = store.read(binary_damaged.key)
    assert again is not None and again.source == binary_damaged.source
    assert store.read(head_damaged.key) is None


def test_prune_removes_what_no_driver_will_ask_for(folder: Path) -> None:
    store = KernelStore(folder / "kernels")
    entry = entries(folder)[0]
    updated = other_device(entry, driver_version="0.1", key="its key before the update")
    elsewhere = other_device(entry, name="a GPU", key="of a GPU")
    damaged = sample(text="damaged")
    for e in (updated, elsewhere, damaged):
        store.write(e)
    store.path(damaged.key).write_bytes(b"?")
    old = folder / "kernels" / "ab" / "from-an-older-version.bin"
    old.parent.mkdir(exist_ok=True, mode=0o700)
    old.write_bytes(b"old")
    before = set(paths(folder))
    planned = run_json(folder, "prune", "--dry-run")
    assert set(paths(folder)) == before and old.exists()
    done = run_json(folder, "prune")
    assert done["removed"] == planned["removed"]
    assert {r["key"] for r in done["removed"]} == {updated.key, damaged.key}
    assert set(paths(folder)) == before - {updated.key, damaged.key}
    assert not old.exists()
    assert "not here" in run(folder, "prune", "--absent").stdout
    assert elsewhere.key not in paths(folder)


def test_prune_by_age_and_size(folder: Path) -> None:
    files = paths(folder)
    used = {key: path.with_suffix(".used") for key, path in files.items()}
    now = time.time()
    for n, key in enumerate(files):
        for path in (files[key], used[key]):
            os.utime(path, (now - 86400 * n, now - 86400 * n))
    oldest = list(files)[-1]
    assert len(files) >= 3
    age = f"{len(files) - 1.5}d"
    assert [r["key"] for r in run_json(folder, "prune", "--older-than", age)["removed"]] == [oldest]
    newest = next(iter(files))
    run(folder, "prune", "--max-size", files[newest].stat().st_size)
    assert list(paths(folder)) == [newest]


def test_clear_asks(folder: Path) -> None:
    before = paths(folder)
    run(folder, "clear", input="n\n", exit_code=1)
    assert paths(folder) == before
    run(folder, "clear", input="y\n")
    assert not paths(folder)
    assert "0 kernels" in run(folder, "clear").stdout


def test_clear_without_asking(folder: Path) -> None:
    count = len(paths(folder))
    assert run_json(folder, "clear", "--yes")["removed"] == count
    assert not list((folder / "kernels").rglob("*.kernel"))
    assert not list((folder / "kernels").rglob("*.used"))
