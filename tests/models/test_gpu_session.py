"""The session on a real GPU, rehearsed on a CPU driver, and the tables of what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import report
from benchmarks.gpu.line import read_lines
from ocl_inductor.device.select import list_devices

ROOT = Path(__file__).parents[2]


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"part": "roof", "gflop_s": 2.0}\n{"part": "netw')
    assert read_lines(path) == [{"part": "roof", "gflop_s": 2.0}]


def test_tables_compare_with_what_is_there() -> None:
    ours = {"part": "network", "contender": "opencl", "case": "x@2", "training": True,
            "ms": 8.0, "kernels_ms": 4.0, "launches": 9, "first_s": 1.0}  # fmt: skip
    eager = {
        "part": "network",
        "contender": "cuda-eager",
        "case": "x@2",
        "training": True,
        "ms": 6.0,
    }
    text = "\n".join(report.networks([ours, eager]))
    assert "| x@2 | float32 | train | opencl | 8 | 4 | 9 | 6 |  | 1.50 | 0.75 | 1 |  |" in text
    without_cuda = "\n".join(report.networks([ours]))
    assert "| x@2 | float32 | train | opencl | 8 | 4 | 9 |  |  |  |  | 1 |  |" in without_cuda
    cut_off = "\n".join(report.networks([eager]))
    assert "| x@2 | float32 | train |  |  |  |  | 6 |  |  |  |  |  |" in cut_off
    half = [{**x, "dtype": "bfloat16"} for x in ({**ours, "contender": "ocl", "ms": 3.0}, eager)]
    both = "\n".join(report.networks([ours, eager, *half]))
    assert "| x@2 | bfloat16 | train | ocl | 3 | 4 | 9 | 6 |  | 1.50 | 2.00 | 1 |  |" in both
    assert text.splitlines()[-2] in both
    failed = {"part": "failed", "of": "memory", "case": "add", "message": "no"}
    ended = {"part": "part", "name": "card", "how": "-11", "seconds": 3.2}
    assert list(report.failures([failed, ended])) == [
        "* failed: memory add : no",
        "* part card ended: -11 after 3 s",
    ]


@pytest.mark.slow
def test_a_rehearsal(tmp_path: Path) -> None:
    """From the script, as on a machine with a GPU, but for wheels that are there already."""
    device = next((d.short_name for d in list_devices() if d.kind == "cpu"), None)
    if device is None:
        pytest.skip("no CPU driver")
    command = ["tools/gpu_run.sh", tmp_path, "--device", device, "--profile", "simt",
               "--memory", "discrete", "--small", "--without-cuda", "--parts", "doctor,networks",
               "--cases", "mlp3@8,mlp3@8/train"]  # fmt: skip
    environment = {**os.environ, "PYTHON": sys.executable, "WHEELS": "/nonexistent"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
    lines = read_lines(tmp_path / "lines.jsonl")
    assert [x["how"] for x in report.of(lines, "part")][:2] == ["0", "0"]
    assert not report.of(lines, "failed")
    inference, training = report.of(lines, "network")
    for found in (inference, training):
        assert found["error"] <= 1e-5 * max(1.0, found["scale"])
        assert found["kernels_ms"] > 0 and found["launches"] > 0
    assert training["training"] and not inference["training"]
    assert json.dumps(lines)
