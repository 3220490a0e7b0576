"""Records as a sweep would write them, for tests that need no models."""

from __future__ import annotations

from typing import Any

from ocl_inductor.sweep.record import Record, SweepResults
from ocl_inductor.sweep.report.causes import cause_of
from ocl_inductor.sweep.status import Status

BACKEND = "opencl:device=intel"


def record(name: str = "model", ms: float | None = None, **changes: Any) -> Record:
    """A performance record of ``ms`` milliseconds, or an accuracy record without a time."""
    metrics: dict[str, Any] = {}
    if ms is not None:
        metrics = {
            "abs_latency": ms,
            "eager_latency": 10.0,
            "speedup": 10.0 / ms,
            "latency_spread": 0.01,
            "samples_ms": [ms * s for s in (0.99, 1.0, 1.0, 1.01)],
            "host_mib": 100.0,
            "compression_ratio": 1.2,
            "first_call_cold_s": 3.0,
        }
    metrics |= changes.pop("metrics", {})
    status = changes.pop("status", Status.PASS)
    fields: dict[str, Any] = {
        "domain": "nlp",
        "mode": "inference",
        "what": "accuracy" if ms is None else "performance",
        "backend": BACKEND,
        "dtype": "float32",
        "batch_size": 4,
        "status": status,
        "metrics": metrics,
        "cause": "" if status.good else cause_of(status, changes.get("message", "")),
        "reproduce": f"ocl-inductor sweep run --only {name}",
        **changes,
    }
    return Record(name, **fields)


def results(*records: Record, **environment: Any) -> SweepResults:
    return SweepResults(environment, {"repeat": 3}, records)
