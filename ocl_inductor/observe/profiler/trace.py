"""A profile as a Chrome trace.

torch.profiler writes times in microseconds from a base that it names in the file: the last multiple
of a quarter of a year. The same base here, so that events of both have comparable times.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ocl_inductor.observe.profiler.result import ProfileData

_QUARTER_S = 7_889_238
#: Process numbers of torch's own rows end well below.
_DEVICE_PID = 0x0C100000


def base_ns(now_ns: int) -> int:
    """Where torch.profiler counts from (nanoseconds since 1970) in a trace made at ``now_ns``."""
    return now_ns // 1_000_000_000 // _QUARTER_S * _QUARTER_S * 1_000_000_000


def write(profile: ProfileData, path: Path, beside: Path | None) -> None:
    """Write the trace; see ``Profile.export_chrome_trace``."""
    trace: dict[str, Any] = {"displayTimeUnit": "ms", "traceEvents": []}
    base = base_ns(profile.start_ns or time.time_ns())
    if beside is not None:
        trace = json.loads(beside.read_text())
        if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
            raise ValueError(f"{beside} is not a trace of torch.profiler: it has no traceEvents")
        base = int(trace.get("baseTimeNanoseconds", base))
    trace["baseTimeNanoseconds"] = base
    trace["traceEvents"] += events(profile, base)
    path.write_text(json.dumps(trace))


def events(profile: ProfileData, base: int) -> list[dict[str, Any]]:
    """Trace events with times in µs from ``base``: a process for each device, and the host's."""
    found: list[dict[str, Any]] = []
    rows = {
        name: _DEVICE_PID + n for n, name in enumerate(sorted({c.device for c in profile.calls}))
    }
    for name, pid in rows.items():
        found.append(_label("process_name", pid, 0, f"OpenCL {name}"))
        found += [
            _label("thread_name", pid, n, kind) for n, kind in enumerate(("kernels", "transfers"))
        ]
    for number, call in enumerate(profile.calls):
        found.append(
            _complete(
                "compiled graph", "opencl_call", os.getpid(), call.thread, call, base, call=number
            )
        )
        for span in call.spans:
            if span.kind == "host":
                where = (os.getpid(), call.thread)
            else:
                where = (rows[call.device], int(span.kind == "transfer"))
            details: dict[str, Any] = {"call": number, "operators": ", ".join(span.operators)}
            if span.kind == "kernel":
                details |= {"flops": span.flops, "bytes": span.nbytes}
            elif span.kind == "transfer":
                details = {"call": number, "bytes": span.nbytes}
            found.append(_complete(span.name, f"opencl_{span.kind}", *where, span, base, **details))
    for start, end in profile.compiles:
        found.append(
            {
                "ph": "X",
                "name": "torch.compile",
                "cat": "opencl_compile",
                "pid": os.getpid(),
                "tid": 0,
                "ts": (start - base) / 1000,
                "dur": (end - start) / 1000,
            }
        )
    return found


def _complete(
    name: str, category: str, pid: int, tid: int, times: Any, base: int, **details: object
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": pid,
        "tid": tid,
        "ts": (times.start_ns - base) / 1000,
        "dur": (times.end_ns - times.start_ns) / 1000,
        "args": details,
    }


def _label(kind: str, pid: int, tid: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}
