"""What ``ocl-inductor cache`` does about plans, and about the other files of the cache folder."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from store_samples import sample

from ocl_inductor.cli import main
from ocl_inductor.runtime.store.kernel_store import KernelStore
from ocl_inductor.runtime.store.plan_files import PlanFiles
from ocl_inductor.runtime.store.plan_scan import scan_plans
from ocl_inductor.runtime.store.usage import evict, scan
from ocl_inductor.support.private_folder import PrivateFolder

DAY = 86400.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three plans of 1000 to 3000 bytes, used one to three days ago; a kernel used 36 h ago."""
    plans = PlanFiles(tmp_path / "plans")
    for n in (1, 2, 3):
        plans.write(f"key{n}", bytes([n]) * 1000 * n)
        (path,) = (tmp_path / "plans" / f"key{n}").iterdir()
        os.utime(path, (time.time() - n * DAY,) * 2)
    store, entry = KernelStore(tmp_path / "kernels"), sample(text="a kernel")
    store.write(entry)
    os.utime(store.path(entry.key), (time.time() - 1.5 * DAY,) * 2)
    for name in ("roofs/a.json", "drivers/b.json", "mine/c.txt", "d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("12345")
    return tmp_path


def _run(folder: Path, *args: str, exit_code: int = 0, **more: Any) -> str:
    result = CliRunner().invoke(main, ["cache", "--cache-dir", str(folder), *args], **more)
    assert result.exit_code == exit_code, result.output
    return result.output


def _json(folder: Path, *args: str) -> Any:
    return json.loads(_run(folder, *args, "--json"))


def _keys(folder: Path) -> list[str]:
    return sorted(p.key for p in scan_plans(PrivateFolder.at(folder / "plans")))


def test_list(folder: Path) -> None:
    rows = _json(folder, "list", "--plans")
    assert [(r["key"], r["bytes"]) for r in rows] == [
        ("key1", 1000),
        ("key2", 2000),
        ("key3", 3000),
    ]
    assert all(Path(r["path"]).stat().st_mtime == r["last_use"] for r in rows)
    by_size = _json(folder, "list", "--plans", "--sort", "size", "--min-size", "2kB")
    assert [r["key"] for r in by_size] == ["key3", "key2"]
    assert [r["key"] for r in _json(folder, "list", "--plans", "--older-than", "60h")] == ["key3"]
    assert _json(folder, "list", "--plans", "--reverse")[0]["key"] == "key3"
    text = _run(folder, "list", "--plans", env={"COLUMNS": "80"})
    assert "3 plans, 6.0 kB" in text and len(text.splitlines()) == 6
    assert "0 plans" in _run(folder, "list", "--plans", "--min-size", "1MB")
    for wrong in (("--kernel", "x"), ("--sort", "hits")):
        assert "for kernels" in _run(folder, "list", "--plans", *wrong, exit_code=2)


def test_stats(folder: Path) -> None:
    facts = _json(folder, "stats")
    assert facts["plans"]["plans"] == 3 and facts["plans"]["bytes"] == 6000
    assert facts["limited_bytes"] == facts["bytes"] + 6000
    assert facts["others"] == {k: {"files": 1, "bytes": 5} for k in ("drivers", "roofs")}
    text = _run(folder, "stats")
    assert "1 kernel, " in text and "3 plans, 6.0 kB" in text and "roofs 5 B" in text


def test_prune_by_age_and_size(folder: Path) -> None:
    done = _json(folder, "prune", "--older-than", "60h", "--dry-run")
    assert done["removed_plans"] == [{"key": "key3", "why": "not used for long"}]
    assert _keys(folder) == ["key1", "key2", "key3"]
    (kernel,) = scan(KernelStore(folder / "kernels"))
    # The oldest of both kinds go first: key3, key2, and then the kernel would.
    done = _json(folder, "prune", "--max-size", str(1000 + kernel.nbytes))
    assert {r["key"] for r in done["removed_plans"]} == {"key3", "key2"}
    assert done["removed"] == [] and done["bytes"] == 5000 and _keys(folder) == ["key1"]
    assert not (folder / "plans" / "key3").exists()
    assert _json(folder, "prune", "--max-size", "1000")["removed"] != []
    assert _keys(folder) == ["key1"]


def test_prune_removes_damaged_plans_and_leftovers(folder: Path) -> None:
    (path,) = (folder / "plans" / "key2").iterdir()
    path.write_bytes(b"cut")
    old, young = (folder / "plans" / "key1" / n for n in (".old", ".young"))
    for file in (old, young):
        file.write_bytes(b"x")
    os.utime(old, (0, 0))
    text = _run(folder, "prune")
    assert "1 plan: damaged" in text and "1 leftover file" in text
    assert _keys(folder) == ["key1", "key3"] and young.exists() and not old.exists()


def test_clear_leaves_what_is_not_ours(folder: Path) -> None:
    _run(folder, "clear", input="n\n", exit_code=1)
    assert len(_keys(folder)) == 3
    done = _json(folder, "clear", "--yes")
    assert [done[k] for k in ("removed", "removed_plans", "removed_others")] == [1, 3, 2]
    left = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert [x for x in left if not x.endswith("lock")] == ["d.txt", "mine/c.txt"]


def test_one_limit_for_kernels_and_plans(folder: Path) -> None:
    store = KernelStore(folder / "kernels")
    (kernel,) = scan(store)
    assert evict(store, 6000 + kernel.nbytes) == (0, 6000 + kernel.nbytes)
    removed, remaining = evict(store, 3000 + kernel.nbytes)  # below 90 % of it: both old plans
    assert (removed, remaining) == (2, 1000 + kernel.nbytes) and _keys(folder) == ["key1"]
    PlanFiles(folder / "plans", limit=1200).write("key4", b"x" * 1000)
    assert _keys(folder) == ["key4"] and scan(store) == []
