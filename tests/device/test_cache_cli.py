"""``ocl-inductor cache list|show|source|stats|diff|bench``."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import pytest
from agreement import two_drivers
from cache_commands import entries, paths, run, run_json
from store_samples import sample

from ocl_inductor.runtime.store.kernel_store import KernelStore
from ocl_inductor.tune import roof


def test_list_says_everything(filled: Path) -> None:
    rows = run_json(filled, "list")
    assert {r["key"] for r in rows} == set(paths(filled))
    for r in rows:
        assert r["hits"] == 1 and r["bytes"] > 1000 and r["build_seconds"] > 0
        assert r["fx_nodes"] and r["operators"] and r["launch"]["buffers"]
        assert r["launch"]["bytes"] > 0
        assert abs(time.time() - r["last_use"]) < 3600
    (softmax,) = (r for r in rows if "aten._softmax.default" in r["operators"])
    assert "return (x @ x.t()).softmax(-1)" in softmax["user_code"]
    assert softmax["device"]["spec"] == two_drivers()[0]


def test_list_in_a_pipe_has_one_line_each_and_no_colours(filled: Path) -> None:
    lines = run(filled, "list", env={"COLUMNS": None}).stdout.splitlines()
    assert len(lines) == 2 + len(paths(filled)) + 1
    assert "\x1b" not in "".join(lines)
    for key in paths(filled):
        assert any(line.startswith(key[:8]) for line in lines)
    assert any("aten._softmax.default" in line for line in lines)


def test_list_fits_80_columns(filled: Path) -> None:
    lines = run(filled, "list", env={"COLUMNS": "80"}).stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80


def test_list_filters(filled: Path) -> None:
    everything = run_json(filled, "list")

    def keys(*args: str) -> set[str]:
        return {r["key"] for r in run_json(filled, "list", *args)}

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
    assert "0 kernels" in run(filled, "list", "--older-than", "1h").stdout


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
    for n, path in enumerate(paths(folder).values()):
        path.with_suffix(".used").write_bytes(b"." * n)
        os.utime(path.with_suffix(".used"), (path.stat().st_mtime + n, path.stat().st_mtime + n))
    values = [field(r) for r in run_json(folder, "list", "--sort", order)]
    assert values == sorted(values)
    reversed_values = [field(r) for r in run_json(folder, "list", "--sort", order, "--reverse")]
    assert reversed_values == sorted(values, reverse=True)


def test_list_shows_damaged_entries(folder: Path) -> None:
    key, path = next(iter(paths(folder).items()))
    path.write_bytes(b"")
    (row,) = (r for r in run_json(folder, "list") if r["key"] == key)
    assert row["problem"] == "it is empty"
    assert "damaged: it is empty" in run(folder, "list").stdout


@pytest.mark.parametrize(
    "args", [("--min-size", "big"), ("--older-than", "1y"), ("--sort", "colour")]
)
def test_wrong_usage(filled: Path, args: tuple[str, str]) -> None:
    assert args[0] in run(filled, "list", *args, exit_code=2).stderr


def test_an_empty_cache(tmp_path: Path) -> None:
    for command in ("list", "stats", "verify", "prune"):
        run(tmp_path / "nothing", command)
        run_json(tmp_path / "nothing", command)
    assert not (tmp_path / "nothing").exists()
    assert "there are no kernels" in run(tmp_path, "show", "ab", exit_code=2).stderr


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_a_folder_that_is_not_trusted(folder: Path) -> None:
    (folder / "kernels").chmod(0o777)
    assert "can be written by other users" in run(folder, "list", exit_code=1).stderr


# -- one entry -----------------------------------------------------------------------------


def test_show_and_source(filled: Path) -> None:
    for entry in entries(filled):
        text = run(filled, "show", entry.key).stdout
        assert entry.key in text and entry.source in text
        for word in (*entry.metadata.operators, *entry.metadata.fx_nodes, "user code"):
            assert word in text
        facts = run_json(filled, "show", entry.key[:20])
        assert facts["source"] == entry.source and facts["hits"] == 1
        assert run(filled, "source", entry.key).stdout == entry.source + "\n"
        assert run_json(filled, "source", entry.key)["source"] == entry.source


def test_the_shortest_beginning_of_a_key_is_enough(folder: Path) -> None:
    store = KernelStore(folder / "kernels")
    n = 0
    while len([k for k in paths(folder) if k[0] == "0"]) < 2:
        store.write(sample(text=str(n)))
        n += 1
    keys = list(paths(folder))
    a, b, *_ = (k for k in keys if k[0] == "0")
    shared = next(n for n in range(64) if a[n] != b[n])
    assert run(folder, "source", a.upper()[: shared + 1]).stdout
    error = run(folder, "source", "0", exit_code=2).stderr
    assert "ambiguous" in error and a[:8] in error and b[:8] in error


def test_an_unknown_key_suggests(filled: Path) -> None:
    by_name = run(filled, "show", "softmax", exit_code=2).stderr
    assert "Did you mean" in by_name and "softmax" in by_name.split("Did you mean")[1]
    key = next(iter(paths(filled)))
    typo = ("0" if key[3] != "0" else "1").join((key[:3], key[4:12]))
    assert key[:8] in run(filled, "show", typo, exit_code=2).stderr


def test_a_damaged_entry_is_not_shown(folder: Path) -> None:
    key, path = next(iter(paths(folder).items()))
    path.write_bytes(path.read_bytes()[:-1])
    assert "verify --repair" in run(folder, "show", key, exit_code=1).stderr


def test_stats(filled: Path) -> None:
    facts = run_json(filled, "stats")
    assert facts["kernels"] == facts["hits"] == len(paths(filled))
    assert facts["bytes"] == sum(p.stat().st_size for p in paths(filled).values())
    assert sum(d["kernels"] for d in facts["devices"]) == facts["kernels"]
    assert abs(facts["saved_seconds"] - facts["build_seconds"]) < 1e-6  # one hit each
    text = run(filled, "stats").stdout
    assert "of 2.1 GB" in text and two_drivers()[0] in text


def test_diff(filled: Path) -> None:
    a, b = entries(filled)[:2]
    facts = run_json(filled, "diff", a.key, b.key)
    assert {f["what"] for f in facts["facts"]} >= {"key", "kernel"}
    assert any(line.startswith("+") for line in facts["source"])
    text = run(filled, "diff", a.key, b.key).stdout
    assert a.metadata.name in text and b.metadata.name in text and "@@" in text
    assert "same entry" in run(filled, "diff", a.key, a.key).stdout


# -- bench ---------------------------------------------------------------------------------


@pytest.mark.parametrize("measured", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_bench_runs_every_kernel(
    filled: Path, monkeypatch: pytest.MonkeyPatch, measured: bool
) -> None:
    if not measured:
        monkeypatch.setattr(roof, "measured_roof", lambda *args: roof.Roof(1e4, 1e5))
    keys = list(paths(filled))
    rows = run_json(filled, "bench", "--seconds", "0.05", *keys)
    assert all(k[:8] in run(filled, "bench", "--seconds", "0.01", k).stdout for k in keys[:1])
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
    (row,) = run_json(filled, "bench", "--seconds", "0.01", next(iter(paths(filled))))
    assert asked == [False, True] and row["percent_of_roof"] < 100
    assert row["roof_gb_s"] == 1e6


def test_bench_says_what_it_lacks(folder: Path) -> None:
    store = KernelStore(folder / "kernels")
    absent = sample()
    entry = entries(folder)[0]
    unknown = dataclasses.replace(entry, metadata=dataclasses.replace(entry.metadata, launch=None))
    store.write(absent)
    store.write(unknown)
    assert "not here" in run(folder, "bench", absent.key, exit_code=1).stderr
    assert "does not say how" in run(folder, "bench", unknown.key, exit_code=1).stderr
