"""Results as files for other tools: dynamobench's CSV tables, and TorchBench's userbenchmark."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.record import Record, SweepResults

_STATISTICS = (
    "calls_captured", "unique_graphs", "graph_breaks", "unique_graph_breaks",
    "autograd_captures", "autograd_compiles", "cudagraph_skips",
)  # fmt: skip

ACCURACY_COLUMNS = (
    "dev", "name", "batch_size", "accuracy", *_STATISTICS, "compilation_latency",
)  # fmt: skip
PERFORMANCE_COLUMNS = (
    "dev", "name", "batch_size", "speedup", "abs_latency", "compilation_latency",
    "compression_ratio", "eager_peak_mem", "dynamo_peak_mem", *_STATISTICS,
)  # fmt: skip

#: Columns of ``results.csv``: a record's own fields, then the metrics worth a column.
_FIELDS = (
    "name", "domain", "mode", "what", "backend", "dtype", "batch_size", "dynamic", "sizes",
    "status", "expected",
)  # fmt: skip
_METRICS = (
    "speedup", "speedup_over_inductor", "abs_latency", "latency_spread", "eager_latency",
    "startup_s", "first_call_cold_s", "first_call_warm_s", "host_mib", "eager_host_mib",
    "compression_ratio",
    "device_planned_mib", "kernels", "launches", "fallbacks", "unique_graphs", "graph_breaks",
    "recompilations", "guards", "guard_build_s", "guard_check_us", "rmse_ratio",
    "largest_difference",
)  # fmt: skip
_PARTS = ("active", "data_movement", "idle")

_MIB = 2**20
_GB = 1e9


def device_of(record: Record) -> str:
    """The column ``dev``: the OpenCL device that was asked for, ``opencl``, or ``cpu``."""
    backend = Backend.parse(record.backend)
    if not backend.is_opencl:
        return "cpu"
    return str(dict(backend.options).get("device", "opencl"))


def dynamobench_row(record: Record) -> dict[str, object]:
    """One line of dynamobench's table for accuracy or performance.

    As there, a model that failed has a speedup of 0; memory is in GB.
    """
    metrics = record.metrics
    row: dict[str, object] = {
        "dev": device_of(record),
        "name": record.name,
        "batch_size": record.batch_size,
    }
    if record.what == "accuracy":
        row |= {"accuracy": str(record.status), "compilation_latency": metrics.get("first_call_s")}
    else:
        row |= {
            "speedup": metrics.get("speedup") or 0.0,
            "abs_latency": metrics.get("abs_latency") or 0.0,
            "compilation_latency": metrics.get("compilation_latency"),
            "compression_ratio": metrics.get("compression_ratio"),
            "eager_peak_mem": _gigabytes(metrics.get("eager_host_mib")),
            "dynamo_peak_mem": _gigabytes(metrics.get("host_mib")),
        }
    for name in _STATISTICS:
        row[name] = metrics.get(name)
    return row


def _gigabytes(mib: float | None) -> float | None:
    return None if mib is None else mib * _MIB / _GB


def _cell(value: object) -> object:
    """dynamobench writes six digits, and 0 for what it does not know."""
    if value is None:
        return 0
    return f"{value:.6f}" if isinstance(value, float) else value


def _write(path: Path, columns: Iterable[str], rows: Iterable[Mapping[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_dynamobench(records: Iterable[Record], folder: Path) -> list[Path]:
    """One file for each backend, dtype, mode and kind of run, named as PyTorch's dashboard does."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        device, backend = device_of(record), Backend.parse(record.backend)
        options = ",".join(f"{k}={v}" for k, v in backend.options if k != "device")
        name = "_".join(filter(None, (backend.name, options, "torchbench", record.dtype)))
        file = f"{name}_{record.mode}_{device}_{record.what}.csv"
        groups.setdefault(re.sub(r"[^\w.=,-]", "-", file), []).append(record)
    for file, members in groups.items():
        accuracy = members[0].what == "accuracy"
        columns = ACCURACY_COLUMNS if accuracy else PERFORMANCE_COLUMNS
        rows = [{k: _cell(v) for k, v in dynamobench_row(r).items()} for r in members]
        _write(folder / file, columns, rows)
    return [folder / file for file in groups]


def write_table(records: Iterable[Record], path: Path) -> None:
    """Every record with its metrics, one line each."""
    rows = []
    for record in records:
        row: dict[str, object] = {field: getattr(record, field) for field in _FIELDS}
        row["sizes"] = " ".join(f"{k}={v}" for k, v in record.sizes)
        row |= {name: _rounded(record.metrics.get(name)) for name in _METRICS}
        parts = record.metrics.get("breakdown") or {}
        row |= {part: _rounded(parts.get(part)) for part in _PARTS}
        row |= {"message": record.message, "why": record.why}
        rows.append(row)
    _write(path, (*_FIELDS, *_METRICS, *_PARTS, "message", "why"), rows)


def _rounded(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def userbenchmark(results: SweepResults) -> dict[str, object]:
    """TorchBench's userbenchmark form: a name, the environment, and numbers by name."""
    metrics: dict[str, float] = {}
    for record in results.records:
        prefix = f"{record.name}-{record.mode}-{record.what}-{record.backend}-{record.dtype}"
        for symbol, size in record.sizes:
            prefix += f"-{symbol}{size}"
        metrics[f"{prefix}-pass"] = float(record.status.good)
        for name in _METRICS:
            value = record.metric(name)
            if value is not None:
                metrics[f"{prefix}-{name}"] = value
        for part, share in (record.metrics.get("breakdown") or {}).items():
            metrics[f"{prefix}-{part}"] = share
    return {
        "name": "ocl_inductor-sweep",
        "environ": {
            **results.environment,
            "pytorch_version": results.environment.get("packages", {}).get("torch"),
            "settings": dict(results.settings),
        },
        "metrics": metrics,
    }


def write_outputs(results: SweepResults, folder: Path) -> list[Path]:
    """Every file but the JSON lines: CSV tables, userbenchmark JSON and the HTML report."""
    from ocl_inductor.sweep.report.report import render_report

    folder.mkdir(parents=True, exist_ok=True)
    written = write_dynamobench(results.records, folder)
    table, metrics, page = (folder / n for n in ("results.csv", "metrics.json", "report.html"))
    write_table(results.records, table)
    metrics.write_text(json.dumps(userbenchmark(results), indent=1) + "\n", encoding="utf-8")
    page.write_text(render_report(results), encoding="utf-8")
    return [*written, table, metrics, page]
