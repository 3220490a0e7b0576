"""``sweep run`` as a user runs it, on toy models: real processes, every output file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rows import write_row

from ocl_inductor.cli import main
from ocl_inductor.device.select import select_device
from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.process.backends import Backend, BadBackendError
from ocl_inductor.sweep.record import Record, read_results
from ocl_inductor.sweep.status import Status

# Real processes, each of which imports torch: minutes on a machine that is busy.
pytestmark = pytest.mark.timeout(900)


def sweep(*words: str) -> tuple[int, str]:
    """Exit code and standard output of ``ocl-inductor sweep …``."""
    result = CliRunner().invoke(main, ["sweep", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def need(device: str) -> None:
    """Skip where the driver that pip installs is missing."""
    try:
        select_device(device)
    except OpenCLInductorError:
        pytest.skip(f"no OpenCL device {device!r} here")


def test_two_models_end_to_end(tmp_path: Path) -> None:
    need("intel")
    configs, output = tmp_path / "rows", tmp_path / "out"
    configs.mkdir()
    inference = {"modes": ["inference"], "why": {"modes": "a toy"}}  # a process less to start
    write_row(configs, "small", "Small", **inference)
    write_row(configs, "wrong", "WrongWhenCompiled", **inference)
    words = ["run", "--configs", str(configs), "--output", str(output), "--device", "intel"]
    words += ["--accuracy", "--inference", "--training", "--timeout", "500"]
    code, text = sweep(*words)
    assert code == 1, text
    found = {(r.name, r.mode): r for r in read_results(output).records}
    assert found.keys() == {("small", "inference"), ("wrong", "inference")}
    record = found["small", "inference"]
    assert record.status is Status.PASS, record
    assert record.metrics["fallbacks"] == 0
    assert record.metrics["launches"] >= 1
    assert record.metrics["graph_breaks"] == 0
    wrong = found["wrong", "inference"]
    assert (wrong.status, wrong.cause) == (Status.FAIL_ACCURACY, "fail_accuracy: outputs")
    assert "differs by 0.01" in wrong.message
    assert wrong.reproduce in text
    _check_files(output)

    # Everything has a result: resuming runs nothing, and ends the same.
    before = (output / "results.jsonl").read_text().count('"result"')
    code, text = sweep(*words, "--resume")
    assert code == 1
    assert (output / "results.jsonl").read_text().count('"result"') == before
    # Without --resume the folder is taken.
    code, text = sweep(*words)
    assert (code, "--resume goes on" in text) == (2, True)


def test_tensors_on_the_device(tmp_path: Path) -> None:
    """The same row with its tensors on `ocl`: one by one, recorded, compiled."""
    need("intel")
    write_row(tmp_path, "small", "Small")
    output = tmp_path / "out"
    code, text = sweep(
        "run", "--configs", str(tmp_path), "--output", str(output), "--accuracy", "--training",
        "--backend", "ocl:memory=discrete", "--backend", "ocl_lazy",
        "--backend", "ocl_compiled:memory=discrete",
        "--device", "intel", "--timeout", "500",
    )  # fmt: skip
    assert code == 0, text
    records = {r.backend: r for r in read_results(output).records}
    assert records.keys() == {
        "ocl:device=intel,memory=discrete", "ocl_lazy:device=intel",
        "ocl_compiled:device=intel,memory=discrete",
    }  # fmt: skip
    for record in records.values():
        assert record.status is Status.PASS, record
        assert record.metrics["fallbacks"] == 0
        assert record.metrics["launches"] >= 1


@pytest.mark.parametrize("text", ["ocl:profile=simt", "ocl_lazy:mode=max-autotune", "ocls"])
def test_backends_that_cannot_be_read(text: str) -> None:
    with pytest.raises(BadBackendError, match="Write NAME or NAME:OPTION=VALUE"):
        Backend.parse(text)


def _check_files(output: Path) -> None:
    name = "opencl_torchbench_float32_inference_intel_accuracy.csv"
    with (output / name).open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["dev"], r["name"], r["accuracy"]) for r in rows] == [
        ("intel", "small", "pass"),
        ("intel", "wrong", "fail_accuracy"),
    ]
    assert list(rows[0])[:4] == ["dev", "name", "batch_size", "accuracy"]
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["metrics"]["small-inference-accuracy-opencl:device=intel-float32-pass"] == 1
    assert metrics["environ"]["packages"]["torch"]
    page = (output / "report.html").read_text()
    assert "fail_accuracy: outputs" in page and "sweep run --only wrong" in page


@pytest.mark.slow
def test_performance_of_a_toy(tmp_path: Path) -> None:
    need("pocl")
    write_row(tmp_path, "small", "Small")
    output = tmp_path / "out"
    words = ["run", "--configs", str(tmp_path), "--output", str(output), "--device", "pocl"]
    words += ["--performance", "--training", "--repeat", "3", "--backend", "opencl"]
    code, text = sweep(*words, "--backend", "inductor", "--cold-start-latency")
    assert code == 0, text
    records = {r.backend: r for r in read_results(output).records}
    assert list(records) == ["eager", "opencl:device=pocl", "inductor"]
    for record in records.values():
        _check_metrics(record)
    ours = records["opencl:device=pocl"].metrics
    assert ours["launches"] >= ours["kernels"] - ours["launches"] >= 0
    assert ours["guards"] > 0 and ours["guard_check_us"] > 0
    with (output / "opencl_torchbench_float32_training_pocl_performance.csv").open() as file:
        row = next(csv.DictReader(file))
    assert float(row["speedup"]) == pytest.approx(ours["speedup"], abs=1e-6)
    assert float(row["eager_peak_mem"]) > 0


def _check_metrics(record: Record) -> None:
    metrics = record.metrics
    assert record.status is Status.PASS, record
    assert metrics["abs_latency"] > 0 and metrics["eager_latency"] > 0
    assert metrics["speedup"] == pytest.approx(metrics["eager_latency"] / metrics["abs_latency"])
    assert len(metrics["samples_ms"]) == 3
    assert metrics["first_call_cold_s"] > 0 and metrics["first_call_warm_s"] > 0
    assert metrics["host_mib"] >= 0 and metrics["unique_graphs"] == (record.backend != "eager")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constructor", "arguments", "status", "message"),
    [
        ("broken", {}, "model_fail_to_load", "cannot be built"),
        ("Raises", {}, "eager_fail_to_run", "no such 42 thing"),
        ("Crashes", {}, "eager_fail_to_run", "SIGSEGV"),
        ("Crashes", {"only_compiled": True}, "fail_to_run", "SIGSEGV"),
        ("Unsteady", {}, "eager_two_runs_differ", "differs by"),
        ("Hangs", {}, "timeout", "longer than 20 s"),
        ("Greedy", {}, "eager_1st_run_OOM", "more than 1.5 GiB"),
    ],
)
def test_every_way_to_fail_is_a_status(
    tmp_path: Path, constructor: str, arguments: dict[str, object], status: str, message: str
) -> None:
    write_row(tmp_path, "toy", constructor, arguments=arguments)
    output = tmp_path / "out"
    timeout = "20" if status == "timeout" else "500"
    code, text = sweep(
        "run", "--configs", str(tmp_path), "--output", str(output), "--accuracy",
        "--backend", "aot_eager", "--timeout", timeout, "--memory-limit", "1.5",
    )  # fmt: skip
    (record,) = read_results(output).records
    assert (str(record.status), message in record.message) == (status, True), record
    assert code == 1
    assert record.reproduce in text


@pytest.mark.slow
def test_a_loss_curve_under_autocast(tmp_path: Path) -> None:
    need("intel")
    write_row(tmp_path, "small", "Small")
    words = ["run", "--configs", str(tmp_path), "--output", str(tmp_path / "out")]
    words += ["--device", "intel", "--training", "--accuracy", "--loss-curve", "--amp"]
    code, text = sweep(*words)
    (record,) = read_results(tmp_path / "out").records
    assert (code, record.status) == (0, Status.PASS), text
    assert len(record.metrics["loss_curves"]["backend"]) == 10


@pytest.mark.slow
def test_resolutions(tmp_path: Path) -> None:
    need("intel")
    write_row(
        tmp_path, "wide", "Pointwise", modes=["inference"], why={"modes": "a toy"},
        inputs=[{"shape": ["B", "R"]}], sizes={"R": 64}, resolutions={"R": [16]},
    )  # fmt: skip
    output = tmp_path / "out"
    words = ["resolution", "--configs", str(tmp_path), "--output", str(output), "--device", "intel"]
    code, text = sweep(*words, "--repeat", "2")
    assert code == 0, text
    found = [(r.sizes, r.backend) for r in read_results(output).records]
    backends = ("eager", "opencl:device=intel")
    assert found == [((("R", size),), backend) for size in (16, 64) for backend in backends]
