"""PyTorch's own tools for debugging with this backend: logs, trace, debug folder, minifier.

Each runs in a child process, since torch reads the variables when it is imported.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch_logs
from agreement import two_drivers

ROOT = Path(__file__).parents[2]

MODEL = """
import torch

@torch.compile(backend="opencl")
def f(x, y):
    return (x @ y).softmax(-1).cumsum(0) + torch.linalg.svdvals(x).sum()

f(torch.randn(40, 60), torch.randn(60, 20))
"""


def run(code: str | Path, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    script = code
    if isinstance(code, str):
        script = cwd / "model.py"
        script.write_text(code)
    shared = {"OCL_INDUCTOR_CACHE_DIR": os.environ["OCL_INDUCTOR_CACHE_DIR"]}
    path = os.pathsep.join([str(cwd), str(ROOT)])
    env = {**env, **shared, "PYTHONPATH": path, "OCL_INDUCTOR_DEVICE": two_drivers()[0]}
    return subprocess.run(
        [sys.executable, str(script)], env=env, cwd=cwd, capture_output=True, text=True
    )


def artifact(trace: str, name: str) -> str:
    """The payload of one artefact of a structured trace: tab-indented lines below its record."""
    found = re.search(rf'^V.* \{{.*"name": "{name}".*\}}\n((?:\t.*\n)+)', trace, re.M)
    assert found is not None, name
    return re.sub(r"^\t", "", found[1], flags=re.M)


def test_logs_trace_and_debug_folder(clean_env: dict[str, str], tmp_path: Path) -> None:
    env = {
        **clean_env,
        "OCL_INDUCTOR_CHAIN": "0",  # the product and the softmax are shown apart
        "TORCH_LOGS": "+opencl,opencl_code,opencl_fusion,opencl_fallback,opencl_memory",
        "TORCH_TRACE": str(tmp_path / "trace"),
        "TORCH_COMPILE_DEBUG": "1",
        "TORCH_COMPILE_DEBUG_DIR": str(tmp_path / "debug"),
    }
    model = MODEL
    if torch_logs.are_read_before_backends():
        env["LOGS_READ_LATER"] = env.pop("TORCH_LOGS")
        model = torch_logs.READ_LATER + MODEL
    done = run(model, env, tmp_path)
    assert done.returncode == 0, done.stderr

    def lines(kind: str) -> str:
        return "\n".join(x for x in done.stderr.splitlines() if f"[__opencl_{kind}]" in x)

    assert "__kernel" in lines("code") and "// FX nodes: mm" in lines("code")
    assert "not fused: mm with _softmax: a template takes only" in lines("fusion")
    assert "fused: _softmax with _softmax" in lines("fusion")
    assert "_linalg_svd.default runs on the host: no lowering" in lines("fallback")
    assert "model.py" in lines("fallback")
    assert re.search(r"scratch [\d.]+ KiB \(largest live set", lines("memory"))
    assert re.search(r"buf\d+ +[\d.]+ KiB +\d+ +\.*#+\.*", lines("memory"))
    assert re.search(r"compile\.py.*\[0/0\] inference graph: \d+ kernels", done.stderr)

    (trace,) = (tmp_path / "trace").iterdir()
    plan = json.loads(artifact(trace.read_text(), "opencl_plan"))
    assert plan["kind"] == "inference" and plan["compile_id"] == "0/0"
    source = artifact(trace.read_text(), "opencl_kernels")
    assert plan["kernels"] and all(name in source for name in plan["kernels"])

    (folder,) = (tmp_path / "debug" / "ocl_inductor").iterdir()
    names = sorted(p.name for p in folder.iterdir())
    assert names == [
        "00_captured.txt", "01_passes.txt", "02_lowered.txt", "03_scheduled.txt",
        "04_memory.txt", "05_kernels.cl", "06_report.txt", "07_report.html",
    ]  # fmt: skip
    assert "linalg_svd" in (folder / "06_report.txt").read_text()


# Child processes of the minifier get the fault as well.
FAULT = """
import os
if os.environ.get("FAULT_OF_TESTS"):
    import torch
    from ocl_inductor.codegen import plan_builder
    from ocl_inductor.lowering import families
    from ocl_inductor.operators.registry import LOWERINGS
    if os.environ["FAULT_OF_TESTS"] == "wrong":
        LOWERINGS[torch.ops.aten.atan.default] = LOWERINGS[torch.ops.aten.sin.default]
    else:
        from dataclasses import replace
        real = plan_builder.for_one_item
        def damaged(code, *more):
            injected = "\\n#error injected\\n" if "atan" in code.body else ""
            return real(replace(code, body=code.body + injected), *more)
        plan_builder.for_one_item = damaged
"""

FAULTY = """
import torch
from torch import nn

first, second = nn.Linear(16, 16), nn.Linear(16, 16)

@torch.compile(backend="opencl")
def f(x):
    return second(first(x * 3).relu().atan()).exp()

with torch.no_grad():
    f(torch.randn(8, 16))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "level", "said"),
    [("build", "2", "KernelBuildError"), ("wrong", "4", "Bad accuracy detected")],
)
def test_minifier(
    fault: str, level: str, said: str, clean_env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(FAULT)
    env = {
        **clean_env,
        "FAULT_OF_TESTS": fault,
        # No key of the cache knows of the fault.
        "OCL_INDUCTOR_CACHE": "0",
        "TORCHDYNAMO_REPRO_AFTER": "dynamo",
        "TORCHDYNAMO_REPRO_LEVEL": level,
    }
    failed = run(FAULTY, env, tmp_path)
    assert failed.returncode == 1
    assert said in failed.stderr, failed.stderr
    (launcher,) = (tmp_path / "torch_compile_debug").glob("*/minifier/minifier_launcher.py")
    assert "backend='opencl'" in launcher.read_text()
    env = {k: v for k, v in env.items() if not k.startswith("TORCHDYNAMO")}
    minified = run(launcher, env, tmp_path)
    assert minified.returncode == 0, minified.stderr
    assert "Wrote minimal repro out to repro.py" in minified.stdout + minified.stderr
    body = (tmp_path / "repro.py").read_text().partition("def forward")[2].partition("mod =")[0]
    assert "atan" in body
    assert "linear" not in body and "exp" not in body, body
    again = run(tmp_path / "repro.py", env, tmp_path)
    assert again.returncode != 0
    # Without the fault the same file runs: it is the fault that was found.
    fine = run(tmp_path / "repro.py", {**env, "FAULT_OF_TESTS": ""}, tmp_path)
    assert fine.returncode == 0, fine.stderr
