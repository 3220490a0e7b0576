"""Which models run: suites, patterns, partitions, TorchBench checkouts, bad words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rows import write_row

from ocl_inductor.cli import main
from ocl_inductor.sweep.process.backends import Backend, BadBackendError
from ocl_inductor.sweep.rows.selection import Selection, partition


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    folder = tmp_path / "rows"
    folder.mkdir()
    for name in ("alpha", "beta", "gamma", "delta"):
        suites = ["smoke", "paper"] if name in ("alpha", "beta") else ["today"]
        write_row(folder, name, "Small", suites=suites)
    return folder


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, ["alpha", "beta", "delta", "gamma"]),
        ({"suite": "smoke"}, ["alpha", "beta"]),
        ({"suite": "today"}, ["delta", "gamma"]),
        ({"suite": "smoke", "only": ("gamma",)}, ["gamma"]),
        ({"keep": ("^A", "mm")}, ["alpha", "gamma"]),
        ({"exclude": ("ta$",)}, ["alpha", "gamma"]),
        ({"partitions": 3, "partition": 1}, ["beta"]),
        ({"partitions": 3, "partition": 2}, ["delta", "gamma"]),
    ],
)
def test_names(configs: Path, fields: dict[str, object], names: list[str]) -> None:
    found = Selection(configs=configs, **fields).rows()  # type: ignore[arg-type]
    assert [row.name for row in found] == names


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 20])
def test_partitions_have_everything_once(parts: int) -> None:
    items = list(range(11))
    split = [partition(items, parts, i) for i in range(parts)]
    assert [x for part in split for x in part] == items
    assert max(map(len, split)) - min(map(len, split)) <= 1


def test_a_checkout_of_torchbench(tmp_path: Path) -> None:
    for name in ("second", "first"):
        folder = tmp_path / "torchbenchmark" / "models" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
    assert [r.name for r in Selection(torchbench=tmp_path).rows()] == ["first", "second"]
    only = Selection(torchbench=tmp_path, only=("first",)).rows()
    assert [r.name for r in only] == ["first"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "alpah"], "Nearest: alpha"),
        (["-k", "("], "no regular expression"),
        (["--total-partitions", "2", "--partition-id", "2"], "goes from 0 to 1"),
        (["-k", "nothing"], "No model is selected"),
        (["--backend", "cuda"], "no such backend"),
        (["--backend", "opencl:device"], "not OPTION=VALUE"),
        (["--size", "R"], "not SYMBOL=N"),
        (["--torchbench", "."], "checkout"),
        (["--timeout", "0"], "timeout"),
    ],
)
def test_wrong_usage(configs: Path, words: list[str], message: str) -> None:
    command = ["sweep", "run", "--dry-run", "--configs", str(configs), *words]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.replace("│", " ").split())


def test_dry_run(configs: Path) -> None:
    command = ["sweep", "run", "--dry-run", "--json", "--configs", str(configs), "-k", "alpha"]
    command += ["--training", "--inference", "--amp", "--backend", "inductor", "--device", "pocl"]
    command += ["--backend", "opencl:profile=simt", "--batch-size", "2", "--dynamic-shapes"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert [(x["mode"], x["what"]) for x in lines] == [
        ("inference", "accuracy"), ("inference", "performance"),
        ("training", "accuracy"), ("training", "performance"),
    ]  # fmt: skip
    label = "opencl:device=pocl,profile=simt"
    assert lines[1]["backends"] == ["eager", "inductor", label]
    words = lines[3]["reproduce"].split()
    for word in ("--training", "--performance", label, "--amp", "--dynamic-shapes"):
        assert word in words
    # The printed command selects the same.
    again = CliRunner().invoke(main, [*words[1:], "--dry-run", "--json"])
    (repeated,) = (json.loads(line) for line in again.output.splitlines())
    assert (repeated["name"], repeated["batch_size"]) == ("alpha", 2)
    assert repeated["reproduce"] == lines[3]["reproduce"]


@pytest.mark.parametrize(
    "text", ["eager", "inductor:freezing=true", "opencl:device=intel,mode=max-autotune"]
)
def test_a_backend_is_written_as_it_is_read(text: str) -> None:
    assert Backend.parse(text).label == text
    assert Backend.parse(Backend.parse(text).label) == Backend.parse(text)


def test_a_backend_keeps_its_own_device() -> None:
    assert Backend.parse("opencl:device=pocl").on_device("intel").label == "opencl:device=pocl"
    assert Backend.parse("opencl").on_device("intel").label == "opencl:device=intel"
    assert Backend.parse("inductor").on_device("intel").label == "inductor"
    with pytest.raises(BadBackendError, match="no options"):
        Backend.parse("eager:a=1")
