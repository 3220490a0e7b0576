"""``ocl-inductor cache``, as a user calls it."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import compiled, random, two_drivers
from click.testing import CliRunner, Result
from store_samples import other_device, sample

from ocl_inductor.cli import main
from ocl_inductor.runtime.store import KernelStore
from ocl_inductor.runtime.store_entry import Entry, encode
from ocl_inductor.tune import roof


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.t()).softmax(-1)


def _cumsum(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(0)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with the kernels of two small functions, one on each of two drivers."""
    folder = tmp_path_factory.mktemp("filled")
    torch.compiler.reset()
    drivers = two_drivers()
    for function, driver in ((_softmax, drivers[0]), (_cumsum, drivers[-1])):
        for _ in range(2):  # the second time they are hits
            x = random(33, 17)
            result = compiled(function, driver, cache_dir=str(folder), chain=False)(x)
            torch.testing.assert_close(result, function(x), rtol=1e-4, atol=1e-4)
            torch.compiler.reset()
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    store = KernelStore(tmp_path / "kernels")
    for key, path in _paths(filled).items():
        store.write_bytes(key, path.read_bytes())
        store.touch(key)
    return tmp_path


def _paths(folder: Path) -> dict[str, Path]:
    return {p.parent.name + p.stem: p for p in sorted((folder / "kernels").rglob("*.kernel"))}


def _entries(folder: Path) -> list[Entry]:
    store = KernelStore(folder / "kernels")
    entries = [store.read(key) for key in _paths(folder)]
    return [e for e in entries if e is not None]


def _run(folder: Path, *args: object, exit_code: int = 0, **more: Any) -> Result:
    result = CliRunner().invoke(
        main, ["cache", "--cache-dir", str(folder), *map(str, args)], **more
    )
    assert result.exit_code == exit_code, result.output + result.stderr
    return result


def _json(folder: Path, *args: object, exit_code: int = 0) -> Any:
    return json.loads(_run(folder, *args, "--json", exit_code=exit_code).stdout)


# -- list ----------------------------------------------------------------------------------


def test_list_says_everything(filled: Path) -> None:
    rows = _json(filled, "list")
    assert {r["key"] for r in rows} == set(_paths(filled))
    for r in rows:
        assert r["hits"] == 1 and r["bytes"] > 1000 and r["build_seconds"] > 0
        assert r["fx_nodes"] and r["operators"] and r["launch"]["buffers"]
        assert r["launch"]["bytes"] > 0
        assert abs(time.time() - r["last_use"]) < 3600
    (softmax,) = (r for r in rows if "aten._softmax.default" in r["operators"])
    assert "return (x @ x.t()).softmax(-1)" in softmax["user_code"]
    assert softmax["device"]["spec"] == two_drivers()[0]


def test_list_in_a_pipe_has_one_line_each_and_no_colours(filled: Path) -> None:
    lines = _run(filled, "list", env={"COLUMNS": None}).stdout.splitlines()
    assert len(lines) == 2 + len(_paths(filled)) + 1
    assert "\x1b" not in "".join(lines)
    for key in _paths(filled):
        assert any(line.startswith(key[:8]) for line in lines)
    assert any("aten._softmax.default" in line for line in lines)


def test_list_fits_80_columns(filled: Path) -> None:
    lines = _run(filled, "list", env={"COLUMNS": "80"}).stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80


def test_list_filters(filled: Path) -> None:
    everything = _json(filled, "list")

    def keys(*args: str) -> set[str]:
        return {r["key"] for r in _json(filled, "list", *args)}

    by_operator = {r["key"] for r in everything if any("mm" in o for o in r["operators"])}
    assert keys("--operator", "MM") == by_operator != set()
    by_name = {r["key"] for r in everything if "softmax" in r["name"]}
    assert keys("--kernel", "softmax") == by_name != set()
    first = two_drivers()[0]
    by_device = {r["key"] for r in everything if r["device"]["spec"] == first}
    assert keys("--device", first) == by_device != set()
    assert keys("--kernel", "softmax", "--operator", "cumsum") == set()
    sizes = sorted(r["bytes"] for r in everything)
    assert len(keys("--min-size", str(sizes[-1]))) == sum(n == sizes[-1] for n in sizes)
    assert keys("--older-than", "1h") == set()
    assert "0 kernels" in _run(filled, "list", "--older-than", "1h").stdout


@pytest.mark.parametrize(
    "order", ["name", "operators", "device", "size", "build-time", "hits", "last-use"]
)
def test_list_sorts(folder: Path, order: str) -> None:
    field = {
        "name": lambda r: r["name"],
        "operators": lambda r: -len(r["operators"]),
        "device": lambda r: r["device"]["spec"],
        "size": lambda r: -r["bytes"],
        "build-time": lambda r: -r["build_seconds"],
        "hits": lambda r: -r["hits"],
        "last-use": lambda r: -r["last_use"],
    }[order]
    for n, path in enumerate(_paths(folder).values()):
        path.with_suffix(".used").write_bytes(b"." * n)
        os.utime(path.with_suffix(".used"), (path.stat().st_mtime + n, path.stat().st_mtime + n))
    values = [field(r) for r in _json(folder, "list", "--sort", order)]
    assert values == sorted(values)
    reversed_values = [field(r) for r in _json(folder, "list", "--sort", order, "--reverse")]
    assert reversed_values == sorted(values, reverse=True)


def test_list_shows_damaged_entries(folder: Path) -> None:
    key, path = next(iter(_paths(folder).items()))
    path.write_bytes(b"")
    (row,) = (r for r in _json(folder, "list") if r["key"] == key)
    assert row["problem"] == "it is empty"
    assert "damaged: it is empty" in _run(folder, "list").stdout


@pytest.mark.parametrize(
    "args", [("--min-size", "big"), ("--older-than", "1y"), ("--sort", "colour")]
)
def test_wrong_usage(filled: Path, args: tuple[str, str]) -> None:
    assert args[0] in _run(filled, "list", *args, exit_code=2).stderr


def test_an_empty_cache(tmp_path: Path) -> None:
    for command in ("list", "stats", "verify", "prune"):
        _run(tmp_path / "nothing", command)
        _json(tmp_path / "nothing", command)
    assert not (tmp_path / "nothing").exists()
    assert "there are no kernels" in _run(tmp_path, "show", "ab", exit_code=2).stderr


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_a_folder_that_is_not_trusted(folder: Path) -> None:
    (folder / "kernels").chmod(0o777)
    assert "can be written by other users" in _run(folder, "list", exit_code=1).stderr


# -- one entry -----------------------------------------------------------------------------


def test_show_and_source(filled: Path) -> None:
    for entry in _entries(filled):
        text = _run(filled, "show", entry.key).stdout
        assert entry.key in text and entry.source in text
        for word in (*entry.metadata.operators, *entry.metadata.fx_nodes, "user code"):
            assert word in text
        facts = _json(filled, "show", entry.key[:20])
        assert facts["source"] == entry.source and facts["hits"] == 1
        assert _run(filled, "source", entry.key).stdout == entry.source + "\n"
        assert _json(filled, "source", entry.key)["source"] == entry.source


def test_the_shortest_beginning_of_a_key_is_enough(folder: Path) -> None:
    store = KernelStore(folder / "kernels")
    n = 0
    while len([k for k in _paths(folder) if k[0] == "0"]) < 2:
        store.write(sample(text=str(n)))
        n += 1
    keys = list(_paths(folder))
    a, b, *_ = (k for k in keys if k[0] == "0")
    shared = next(n for n in range(64) if a[n] != b[n])
    assert _run(folder, "source", a.upper()[: shared + 1]).stdout
    error = _run(folder, "source", "0", exit_code=2).stderr
    assert "ambiguous" in error and a[:8] in error and b[:8] in error


def test_an_unknown_key_suggests(filled: Path) -> None:
    by_name = _run(filled, "show", "softmax", exit_code=2).stderr
    assert "Did you mean" in by_name and "softmax" in by_name.split("Did you mean")[1]
    key = next(iter(_paths(filled)))
    typo = ("0" if key[3] != "0" else "1").join((key[:3], key[4:12]))
    assert key[:8] in _run(filled, "show", typo, exit_code=2).stderr


def test_a_damaged_entry_is_not_shown(folder: Path) -> None:
    key, path = next(iter(_paths(folder).items()))
    path.write_bytes(path.read_bytes()[:-1])
    assert "verify --repair" in _run(folder, "show", key, exit_code=1).stderr


def test_stats(filled: Path) -> None:
    facts = _json(filled, "stats")
    assert facts["kernels"] == facts["hits"] == len(_paths(filled))
    assert facts["bytes"] == sum(p.stat().st_size for p in _paths(filled).values())
    assert sum(d["kernels"] for d in facts["devices"]) == facts["kernels"]
    assert abs(facts["saved_seconds"] - facts["build_seconds"]) < 1e-6  # one hit each
    text = _run(filled, "stats").stdout
    assert "of 2.1 GB" in text and two_drivers()[0] in text


def test_diff(filled: Path) -> None:
    a, b = _entries(filled)[:2]
    facts = _json(filled, "diff", a.key, b.key)
    assert {f["what"] for f in facts["facts"]} >= {"key", "kernel"}
    assert any(line.startswith("+") for line in facts["source"])
    text = _run(filled, "diff", a.key, b.key).stdout
    assert a.metadata.name in text and b.metadata.name in text and "@@" in text
    assert "same entry" in _run(filled, "diff", a.key, a.key).stdout


# -- bench ---------------------------------------------------------------------------------


@pytest.mark.parametrize("measured", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_bench_runs_every_kernel(
    filled: Path, monkeypatch: pytest.MonkeyPatch, measured: bool
) -> None:
    if not measured:
        monkeypatch.setattr(roof, "measured_roof", lambda *args: roof.Roof(1e4, 1e5))
    keys = list(_paths(filled))
    rows = _json(filled, "bench", "--seconds", "0.05", *keys)
    assert all(k[:8] in _run(filled, "bench", "--seconds", "0.01", k).stdout for k in keys[:1])
    assert [r["key"] for r in rows] == keys
    for r in rows:
        assert 0 < r["best_seconds"] <= r["median_seconds"] < 1
        assert r["gb_s"] == pytest.approx(r["bytes"] / r["median_seconds"] / 1e9)
        assert r["gflop_s"] == pytest.approx(r["flops"] / r["median_seconds"] / 1e9)
        least = max(r["flops"] / r["roof_gflop_s"], r["bytes"] / r["roof_gb_s"]) * 1e-9
        assert r["least_seconds"] <= least * 1.0001  # less where the bytes may be in a cache
        assert measured or r["least_seconds"] == pytest.approx(least)
        assert r["percent_of_roof"] == pytest.approx(100 * r["least_seconds"] / r["median_seconds"])


def test_bench_measures_a_roof_again_that_a_kernel_beats(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def measured_roof(device: Any, settings: Any, *, again: bool = False) -> roof.Roof:
        asked.append(again)
        return roof.Roof(1e6, 1e6) if again else roof.Roof(1e-6, 1e-6)

    monkeypatch.setattr(roof, "measured_roof", measured_roof)
    (row,) = _json(filled, "bench", "--seconds", "0.01", next(iter(_paths(filled))))
    assert asked == [False, True] and row["percent_of_roof"] < 100
    assert row["roof_gb_s"] == 1e6


def test_bench_says_what_it_lacks(folder: Path) -> None:
    store = KernelStore(folder / "kernels")
    absent = sample()
    entry = _entries(folder)[0]
    unknown = dataclasses.replace(entry, metadata=dataclasses.replace(entry.metadata, launch=None))
    store.write(absent)
    store.write(unknown)
    assert "not here" in _run(folder, "bench", absent.key, exit_code=1).stderr
    assert "does not say how" in _run(folder, "bench", unknown.key, exit_code=1).stderr


# -- verify, prune, clear ------------------------------------------------------------------


def test_verify_finds_and_repairs(folder: Path) -> None:
    store = KernelStore(folder / "kernels")
    assert {f["status"] for f in _json(folder, "verify")} == {"ok"}
    entries = _entries(folder)
    binary_damaged, head_damaged, rejected = entries[:3]
    path = store.path(binary_damaged.key)
    path.write_bytes(path.read_bytes()[:-7])
    store.path(head_damaged.key).write_bytes(b"x" * 100)
    store.write(dataclasses.replace(rejected, binary=b"\x7fELF" + b"nonsense" * 100))
    bad = {
        f["key"]: (f["status"], f["action"])
        for f in _json(folder, "verify", exit_code=1)
        if f["status"] != "ok"
    }
    assert bad == {
        binary_damaged.key: ("damaged", ""),
        head_damaged.key: ("damaged", ""),
        rejected.key: ("rejected", ""),
    }
    text = _run(folder, "verify", "--repair").stdout
    assert "3 bad" in text and text.count("rebuilt") == 2 and text.count("removed") == 1
    assert {f["status"] for f in _json(folder, "verify")} == {"ok"}
    again = store.read(binary_damaged.key)
    assert again is not None and again.source == binary_damaged.source
    assert store.read(head_damaged.key) is None


def test_prune_removes_what_no_driver_will_ask_for(folder: Path) -> None:
    store = KernelStore(folder / "kernels")
    entry = _entries(folder)[0]
    updated = other_device(entry, driver_version="0.1", key="its key before the update")
    elsewhere = other_device(entry, name="a GPU", key="of a GPU")
    damaged = sample(text="damaged")
    for e in (updated, elsewhere, damaged):
        store.write(e)
    store.path(damaged.key).write_bytes(b"?")
    old = folder / "kernels" / "ab" / "from-an-older-version.bin"
    old.parent.mkdir(exist_ok=True, mode=0o700)
    old.write_bytes(b"old")
    before = set(_paths(folder))
    planned = _json(folder, "prune", "--dry-run")
    assert set(_paths(folder)) == before and old.exists()
    done = _json(folder, "prune")
    assert done["removed"] == planned["removed"]
    assert {r["key"] for r in done["removed"]} == {updated.key, damaged.key}
    assert set(_paths(folder)) == before - {updated.key, damaged.key}
    assert not old.exists()
    assert "not here" in _run(folder, "prune", "--absent").stdout
    assert elsewhere.key not in _paths(folder)


def test_prune_by_age_and_size(folder: Path) -> None:
    paths = _paths(folder)
    used = {key: path.with_suffix(".used") for key, path in paths.items()}
    now = time.time()
    for n, key in enumerate(paths):
        for path in (paths[key], used[key]):
            os.utime(path, (now - 86400 * n, now - 86400 * n))
    oldest = list(paths)[-1]
    assert len(paths) >= 3
    age = f"{len(paths) - 1.5}d"
    assert [r["key"] for r in _json(folder, "prune", "--older-than", age)["removed"]] == [oldest]
    newest = next(iter(paths))
    _run(folder, "prune", "--max-size", paths[newest].stat().st_size)
    assert list(_paths(folder)) == [newest]


def test_clear_asks(folder: Path) -> None:
    before = _paths(folder)
    _run(folder, "clear", input="n\n", exit_code=1)
    assert _paths(folder) == before
    _run(folder, "clear", input="y\n")
    assert not _paths(folder)
    assert "0 kernels" in _run(folder, "clear").stdout


def test_clear_without_asking(folder: Path) -> None:
    count = len(_paths(folder))
    assert _json(folder, "clear", "--yes")["removed"] == count
    assert not list((folder / "kernels").rglob("*.kernel"))
    assert not list((folder / "kernels").rglob("*.used"))


# -- export and import ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kernels.tar", "kernels.tar.gz"])
def test_carried_to_another_cache(filled: Path, tmp_path: Path, name: str) -> None:
    file, other = tmp_path / name, tmp_path / "other"
    _run(filled, "export", file)
    assert _json(other, "import", file) == {
        "imported": len(_paths(filled)),
        "already_here": 0,
        "refused": [],
    }
    assert _entries(other) == _entries(filled)
    assert _json(other, "import", file)["already_here"] == len(_paths(filled))
    assert {f["status"] for f in _json(other, "verify")} == {"ok"}


def test_export_chooses(filled: Path, tmp_path: Path) -> None:
    key = next(iter(_paths(filled)))
    assert _json(filled, "export", tmp_path / "one.tar", key[:12])["exported"] == 1
    some = _json(filled, "export", tmp_path / "some.tar", "--operator", "softmax")["exported"]
    assert 0 < some < len(_paths(filled))
    assert "--force" in _run(filled, "export", tmp_path / "one.tar", exit_code=2).stderr
    _run(filled, "export", tmp_path / "one.tar", "--force")
    _run(filled, "export", tmp_path / "no folder" / "x.tar", exit_code=1)


def test_export_leaves_damaged_entries_out(folder: Path, tmp_path: Path) -> None:
    key, path = next(iter(_paths(folder).items()))
    path.write_bytes(path.read_bytes()[:-1])
    facts = _json(folder, "export", tmp_path / "x.tar", exit_code=1)
    assert facts["damaged"] == [key] and facts["exported"] == len(_paths(folder)) - 1


def test_import_refuses_what_export_would_not_write(tmp_path: Path) -> None:
    good, other = sample(text="good"), sample(text="other")
    data = encode(good)
    name = f"{good.key}.kernel"
    outside = tmp_path / "outside"

    def file(name: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        return info, content

    def link(name: str, target: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        return info, b""

    bad = [
        file(f"../{name}", data),
        file(f"{outside}/{name}", data),
        file(f"x/../../{name}", data),
        file(f"{other.key}.kernel", data),
        file(name, data[:-1]),
        file(name.replace(".kernel", ".used"), b"."),
        file("../../../../etc/passwd", b"root"),
        link(f"{other.key}.kernel", "/etc/passwd", tarfile.SYMTYPE),
        link(f"{other.key}.kernel", name, tarfile.LNKTYPE),
    ]
    archive = tmp_path / "bad.tar"
    with tarfile.open(archive, "w") as tar:
        for info, content in [*bad, file(name, data)]:
            tar.addfile(info, io.BytesIO(content))
    before = sorted(p.name for p in tmp_path.iterdir())
    facts = _json(tmp_path / "cache", "import", archive, exit_code=1)
    assert (facts["imported"], len(facts["refused"])) == (1, len(bad))
    assert list(_paths(tmp_path / "cache")) == [good.key]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*before, "cache"])


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b broken"])
def test_import_of_something_else(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    error = _run(tmp_path / "cache", "import", tmp_path / "x.tar", exit_code=1).stderr
    assert "not a readable archive" in error
    _run(tmp_path, "import", tmp_path / "missing.tar", exit_code=2)
