"""``ocl-inductor profile SCRIPT``, in this process; the scripts are small."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ocl_inductor.cli import main
from ocl_inductor.observe.profiler import Profile, result
from ocl_inductor.tune.roof import Roof

SCRIPT = """
import sys, torch
f = torch.compile(lambda x: x.softmax(-1), backend="opencl")
with torch.no_grad():
    for _ in range(int(sys.argv[1])):
        f(torch.randn(8, 32))
print("said by the script", __name__, sys.argv[2:])
"""


@pytest.fixture(autouse=True)
def known_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "measured_roof", lambda device, settings: Roof(10.0, 100.0))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def invoke(*arguments: object, columns: str = "80") -> Result:
    return CliRunner().invoke(main, ["profile", *map(str, arguments)], env={"COLUMNS": columns})


def test_table_and_trace(script: Path, tmp_path: Path) -> None:
    before = list(sys.argv), list(sys.path)
    done = invoke("--trace", tmp_path / "out.json", script, 3, "--json", "-x")
    assert done.exit_code == 0, done.output
    assert (list(sys.argv), list(sys.path)) == before
    # Options after the script are the script's, and what it prints is no part of the output.
    assert "said by the script __main__ ['--json', '-x']" in done.stderr
    assert "said by" not in done.stdout
    assert "reduction_softmax" in done.stdout and "3 calls of compiled graphs" in done.stdout
    for part in ("active", "data movement", "idle", "wall time", "compiling"):
        assert part in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert sum(e.get("cat") == "opencl_kernel" for e in events) == 3


MANY_AND_LARGE = """
import torch
small = torch.compile(lambda x: x.softmax(-1), backend="opencl", dynamic=False)
large = torch.compile(lambda x: x + 1, backend="opencl", dynamic=False)
with torch.no_grad():
    for _ in range(3):
        small(torch.randn(2, 16))
    large(torch.randn(1 << 16))
"""


@pytest.mark.parametrize(("sort", "first"), [("memory", "add"), ("launches", "softmax")])
def test_ranks(sort: str, first: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(MANY_AND_LARGE)
    done = invoke("--sort", sort, path, columns="120")
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines()]
    kernels = [row for row in rows if row and row[0].startswith(("pointwise_", "reduction_"))]
    assert len(kernels) == 2 and first in kernels[0][0]
    megabytes = {row[0]: row[-4] for row in kernels}
    (added,) = (m for name, m in megabytes.items() if "add" in name)
    assert float(added) == pytest.approx(2 * 4 * (1 << 16) / 1e6, abs=0.05)


def test_a_rank_that_does_not_exist(script: Path) -> None:
    done = invoke("--sort", "size", script, 1)
    assert done.exit_code == 2 and "'time', 'memory', 'launches'" in done.stderr
    with pytest.raises(ValueError, match="none of time, memory, launches"):
        Profile().table(sort="size")


def test_json(script: Path) -> None:
    done = invoke("--json", script, 2)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["calls"] == 2 and not found["failed"]
    (kernel,) = found["kernels"]
    # Five operations for an element (max, sub, exp, sum, mul), and the reciprocal of a row's sum.
    assert kernel["calls"] == 2 and kernel["flops"] == 2 * 8 * (5 * 32 + 1)
    parts = found["breakdown"]
    total = parts["active_ns"] + parts["data_movement_ns"] + parts["idle_ns"]
    assert total == parts["wall_ns"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('out of luck')", "out of luck"),
        ("import sys; sys.exit(3)", "ended with exit code 3"),
        ("import sys; sys.exit('no room')", "ended with the message 'no room'"),
        ("raise KeyboardInterrupt", "ended with an interrupt"),
        ("class Stop(BaseException): pass\nraise Stop('enough')", "Stop: enough"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "ended with SIGTERM"),
    ],
)
def test_a_script_that_fails(tmp_path: Path, code: str, said: str) -> None:
    path = tmp_path / "fails.py"
    path.write_text(SCRIPT + code)
    done = invoke(path, 1)
    assert done.exit_code == 1
    assert said in done.stderr and "reduction_softmax" in done.stdout
    assert (
        str(Path(main.callback.__code__.co_filename).parent) not in done.stderr
    )  # no frame of ours
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_script_that_compiles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text("import sys; sys.exit(0)")
    done = invoke(path)
    assert done.exit_code == 1 and "No compiled graph ran" in done.stdout


def test_wrong_usage(script: Path, tmp_path: Path) -> None:
    assert invoke().exit_code == 2
    assert invoke(tmp_path / "none.py").exit_code == 2
    assert invoke("--rows", 0, script).exit_code == 2
    done = invoke("--trace", tmp_path / "no" / "where.json", script, 1)
    assert done.exit_code == 2 and "there is no folder" in done.stderr


def test_a_pipe_gets_whole_lines(script: Path) -> None:
    lines = invoke(script, 1, columns="").stdout.splitlines()
    assert any("reduction_softmax" in line and line.rstrip().endswith("%") for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_the_documented_example(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(code, "cli.md", "exec"), {})
    assert "10 calls of compiled graphs" in capsys.readouterr().out


def test_the_documented_attributes_exist() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    table = page.split("| of the result | |")[1].split("\n\n")[0]
    names = set(re.findall(r"`p\.(\w+)", table))
    assert len(names) == 8 and names <= set(dir(Profile()))
