"""``ocl-inductor prebuild``: what it builds is what a program finds, here or from a list."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from agreement import two_drivers
from click.testing import CliRunner

from ocl_inductor.cli import main
from ocl_inductor.eager.prebuild.call_lines import call_of_line, line_of
from ocl_inductor.errors import CallLineError

DEVICE = two_drivers()[0]
MODEL = """
import torch
from torch import nn


def make():
    return nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Softmax(-1)), torch.randn(3, 6)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.py").write_text(MODEL)
    return tmp_path


def prebuild(folder: Path, cache: str, *arguments: str, memory: str = "discrete") -> str:
    """Standard output, standard error and the exit code of the command in a process of its own."""
    around = {
        "OCL_INDUCTOR_DEVICE": DEVICE,
        "OCL_INDUCTOR_MEMORY": memory,
        "OCL_INDUCTOR_CACHE_DIR": str(folder / cache),
    }
    command = [sys.executable, "-c", "from ocl_inductor.cli import main; main()", "prebuild"]
    done = subprocess.run(
        [*command, *arguments], cwd=folder, env=os.environ | around, text=True,
        capture_output=True, timeout=240,
    )  # fmt: skip
    return f"{done.stdout}{done.stderr}exit code {done.returncode}"


def counts(said: str) -> tuple[int, int, int]:
    found = re.search(r"(\d+) built in .* s, (\d+) were there, (\d+) run on the host", said)
    assert found is not None, said
    return int(found[1]), int(found[2]), int(found[3])


def test_a_model_and_its_list(folder: Path) -> None:
    said = prebuild(folder, "here", "small:make", "--export", "calls.txt")
    assert said.endswith("exit code 0"), said
    built, kept, _ = counts(said)
    assert built >= 3 and not kept
    calls = [json.loads(line) for line in (folder / "calls.txt").read_text().splitlines()]
    assert len(calls) == built
    assert {"aten.addmm.default", "aten._softmax.default"} <= {c["operator"] for c in calls}

    # Elsewhere the list gives the same graphs: the model finds all of them.
    said = prebuild(folder, "there", "--list", "calls.txt")
    assert said.endswith("exit code 0") and counts(said)[0] == built, said
    said = prebuild(folder, "there", "small:make", "--json")
    calls = json.JSONDecoder().raw_decode(said)[0]["calls"]
    assert len(calls) >= built and all(c["kept"] or c["on_host"] for c in calls)


def test_lines_that_are_no_calls(folder: Path) -> None:
    good = '{"operator": "aten.neg.default", "args": [{"tensor": [[3], [1], "float32"]}]}'
    lines = ["neg(3)", good, '{"operator": "aten.no_such_thing.default"}', ""]
    (folder / "calls.txt").write_text("\n".join(lines))
    said = prebuild(folder, "here", "--list", "calls.txt")
    assert said.endswith("exit code 1")
    assert "line 1: this line is no call" in said and "line 3: this line is no call" in said
    assert counts(said) == (1, 0, 0)


def test_nothing_to_build_and_wrong_usage(folder: Path) -> None:
    said = prebuild(folder, "here", "small:make", memory="auto")
    assert "nothing to build" in said and said.endswith("exit code 0")
    for arguments in ([], ["small:make", "--list", str(folder / "small.py")]):
        done = CliRunner().invoke(main, ["prebuild", *arguments])
        assert "give a TARGET or --list" in done.stderr and done.exit_code == 2


def test_lines() -> None:
    x = torch.randn(4, 3).t()
    aten = torch.ops.aten
    line = line_of(aten.add.Tensor, (x, x), {"alpha": 2})
    assert json.loads(line)["args"] == [{"tensor": [[3, 4], [1, 3], "float32"]}, {"same": 0}]
    assert call_of_line(line, torch.device("cpu"))().equal(torch.zeros(3, 4))  # type: ignore[attr-defined]
    given = {"dtype": torch.float64, "memory_format": torch.contiguous_format}
    line = line_of(aten._to_copy.default, (x,), {**given, "device": torch.device("cpu")})
    made = call_of_line(line, torch.device("cpu"))()
    assert (
        isinstance(made, torch.Tensor) and made.dtype is torch.float64 and made.stride() == (4, 1)
    )
    assert line_of(aten.add.Tensor, (x, 1j), {}) == ""
    for wrong in ('{"operator": "aten.add"}', "[1]", '{"operator": "aten.neg.default", "args": 1}'):
        with pytest.raises(CallLineError, match="no call of an operator"):
            call_of_line(wrong, torch.device("cpu"))
