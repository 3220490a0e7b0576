"""``ocl_inductor.explain`` and ``ocl-inductor explain``: what they say agrees with what ran."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_same, random, two_drivers
from click.testing import CliRunner
from torch._dynamo.utils import counters

import ocl_inductor
from ocl_inductor.cli import main
from ocl_inductor.observe.explain import observed, parse_break
from ocl_inductor.observe.report.report import Report
from ocl_inductor.observe.report.values import GraphReport

ROOT = Path(__file__).parents[2]


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x * 2 + 1)).relu()
        return self.linear(y.mean((2, 3))).softmax(-1)


def explained(fn: Any, *args: Any, device: str) -> Report:
    return ocl_inductor.explain(fn, *args, compile_options={"device": device})


def check_memory(graph: GraphReport) -> None:
    """Buffers that are alive together do not overlap, and the sums are right."""
    scratch = graph.memory.scratch
    for n, a in enumerate(scratch):
        assert 0 <= a.first <= a.last < len(graph.calls)
        assert a.offset + a.bytes <= graph.memory.planned
        for b in scratch[:n]:
            # Buffers of one slot meet where a kernel writes the second over the first.
            apart = a.last < b.first or b.last < a.first or a.slot == b.slot
            assert apart or a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
    assert graph.memory.lower_bound <= graph.memory.planned
    assert graph.memory.unplanned == sum(b.bytes for b in scratch)


@pytest.mark.parametrize("driver", two_drivers())
def test_a_model(driver: str) -> None:
    model = Small().eval().requires_grad_(False)
    report = explained(model, random(2, 3, 9, 9), device=driver)
    (graph,) = report.graphs
    assert report.title == "Small"
    assert (graph.kind, graph.device, graph.compile_id) == ("inference", driver, "0/0")
    assert not report.breaks and not report.recompilations and not graph.fallbacks
    assert sum(s.kind == "kernel" for s in graph.calls) == counters["opencl"]["kernels"]
    assert len(graph.prologue) == counters["opencl"]["prologue_kernels"]
    assert [s.number for s in graph.steps] == list(range(len(graph.steps)))
    assert {s.kernel for s in graph.steps} == set(range(len(graph.kernels)))
    shown = {graph.operator(n).short for s in graph.calls for n in s.operators}
    assert shown >= {"mul", "add", "convolution", "batch_norm", "relu", "mean", "addmm", "softmax"}
    for s in graph.steps:
        assert s.operators and s.flops is not None and s.bytes
        assert s.name in graph.kernels[s.kernel].source
    places = {o.source.code for o in graph.operators if o.source is not None}
    assert "y = self.norm(self.conv(x * 2 + 1)).relu()" in places
    assert "conv" in {o.module for o in graph.operators}
    check_memory(graph)
    assert report.roof is not None and report.roof.gflop_s > 0
    assert graph.memory.outputs == 2 * 5 * 4


def test_operators_are_in_the_kernels_that_compute_them() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (x.sin() + 1).cumsum(0), (y.cos() * 2).cumsum(0)

    report = explained(fn, random(7, 3), random(5, 4), device=two_drivers()[0])
    (graph,) = report.graphs
    found = [[graph.operator(n).short for n in s.operators] for s in graph.calls]
    assert found == [["sin", "add", "cumsum"], ["cos", "mul", "cumsum"]]


def test_refusals_and_fallbacks_have_reasons() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.softmax(1).sum(0) * torch.linalg.svdvals(x).sum()

    report = explained(fn, random(33, 17), device=two_drivers()[0])
    (graph,) = report.graphs
    (host,) = graph.fallbacks
    assert "svd" in host.name and host.reason == "no lowering for this operator"
    assert "svdvals" in report.text() and host.reason in report.text()
    assert graph.refusals
    for r in graph.refusals:
        assert r.first != r.second and r.reason and r.saved_bytes > 0
        assert f"{r.first} + {r.second}" in report.text()
    check_memory(graph)


def test_breaks_and_recompilations() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    compiled: Any = None
    with observed() as seen:
        compiled = torch.compile(fn, backend="opencl", dynamic=False)
        for size in (3, 4):
            x = random(size)
            assert_same(compiled(x), fn(x))
    report = seen.report("two sizes")
    assert len(report.graphs) == 4
    assert [b.compile_id for b in report.breaks] == ["0/0, 0/1"]
    assert report.breaks[0].code == "torch._dynamo.graph_break()"
    assert report.breaks[0].place.startswith("test_explain.py:")
    first = report.recompilations[0]
    assert first.compile_id == "0/1" and "fn (test_explain.py" in first.function
    assert "expected 3, actual 4" in first.reasons[0]
    # Outside of the block nothing is recorded.
    torch.compile(lambda x: x - 1, backend="opencl")(random(3))
    assert len(seen.graphs) == 4


def test_training_shows_forward_and_backward() -> None:
    layer = torch.nn.Linear(9, 4)

    def step(x: torch.Tensor) -> None:
        torch.compile(layer, backend="opencl")(x).relu().sum().backward()

    with observed() as seen:
        step(random(5, 9))
    assert [g.kind for g in seen.graphs] == ["forward", "backward"]
    assert layer.weight.grad is not None


def test_symbolic_sizes_show_those_of_the_trace() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x).cumsum(0)

    with observed() as seen:
        torch.compile(fn, backend="opencl", dynamic=True)(random(6, 7))
    (graph,) = seen.graphs
    assert {value for _, value in graph.symbols} == {6, 7}
    assert sum(b.bytes for b in graph.memory.buffers if b.where == "output") == 6 * 7 * 4
    assert all(s.bytes and s.bytes >= 2 * 6 * 7 * 4 for s in graph.calls)


def test_what_is_compiled_already_is_compiled_again() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    compiled = torch.compile(fn, backend="opencl")
    compiled(random(3))
    assert len(ocl_inductor.explain(compiled, random(3)).graphs) == 1


def test_a_break_that_is_worded_differently() -> None:
    found = parse_break("1/0", "something new")
    assert (found.place, found.code, found.reason) == ("", "", "something new")


# -- the command -------------------------------------------------------------------------------

SCRIPT = """
import sys
import torch
from neighbour import double

@torch.compile(backend="opencl")
def f(x):
    return double(x).sum()

print("said", sys.argv[1:], __name__)
f(torch.ones(3))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("def double(x):\n    return x * 2\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_command_runs_a_script_as_a_user_would(
    script: Path, tmp_path: Path, clean_env: dict[str, str]
) -> None:
    shared = {"OCL_INDUCTOR_CACHE_DIR": os.environ["OCL_INDUCTOR_CACHE_DIR"]}
    env = {**clean_env, **shared, "PYTHONPATH": str(ROOT), "OCL_INDUCTOR_DEVICE": two_drivers()[0]}
    command = [sys.executable, "-c", "from ocl_inductor.cli import main; main()", "explain"]
    done = subprocess.run(
        [*command, str(script), "--json", "--", "--json", "7"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "said ['--json', '7'] __main__" in done.stderr
    (graph,) = json.loads(done.stdout)["graphs"]
    assert {o["source"]["code"] for o in graph["operators"]} == {
        "return x * 2", "return double(x).sum()"
    }  # fmt: skip


def invoke(*args: str) -> Any:
    return CliRunner().invoke(main, ["explain", *args])


def test_command_on_a_failing_script(tmp_path: Path) -> None:
    path = tmp_path / "failing.py"
    path.write_text(SCRIPT.replace("from neighbour import double", "double = lambda x: x * 2"))
    with path.open("a") as file:
        file.write("raise ValueError('no good')\n")
    done = invoke(str(path))
    assert done.exit_code == 1
    assert "1 graph" in done.stdout and "ValueError: no good" in done.stdout
    path.write_text("import sys\nsys.exit(3)\n")
    done = invoke(str(path))
    assert done.exit_code == 1
    assert "exit code 3" in done.stdout and "Nothing was compiled" in done.stdout


def test_command_on_a_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import torch\ndef make():\n    return torch.nn.Linear(3, 4), torch.ones(2, 3)\n"
    (tmp_path / "factory_of_tests.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    page = tmp_path / "out.html"
    done = invoke("factory_of_tests:make", "--html", str(page), "--train")
    assert done.exit_code == 0, done.output
    assert page.read_text().count('<section class="compiled"') == 2
    done = invoke("factory_of_tests:make")
    assert done.exit_code == 0 and "1 graph, 0 graph breaks" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nosuch.py",), "there is no file nosuch.py"),
        (("nosuch:thing",), "cannot import nosuch:thing"),
        (("json:nosuch",), "cannot import json:nosuch"),
        (("json:__name__",), "not a function"),
        (("json:loads", "more"), "only a script takes arguments"),
        (("script.py", "--epochs", "3"), "No such option"),
        ((__file__, "--train"), "--train is for a model"),
        ((), "Missing argument"),
    ],
)
def test_command_used_wrongly(args: tuple[str, ...], said: str) -> None:
    done = invoke(*args)
    assert done.exit_code == 2
    assert said in done.output
