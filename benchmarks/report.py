"""Tables of measurements for a terminal or a pipe of 80 columns."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table
from rich.text import Text

Case = dict[str, Any]

_SHORT = {"inductor-freezing": "freezing"}


def short_name(contender: str) -> str:
    """A name that leaves room for numbers."""
    return _SHORT.get(contender, contender.replace("opencl:", "ocl "))


def milliseconds(value: float | None) -> str:
    """Three significant digits, plain notation."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def ratio(reference: float | None, value: float | None) -> Text:
    """How many times faster ``value`` is than ``reference``; green above, red below 1."""
    if not reference or not value:
        return Text("–")
    times = reference / value
    style = "green" if times >= 1.03 else "red" if times <= 0.97 else ""
    return Text(f"{times:.2f}×", style=style)


def _count(value: Any) -> str:
    return "–" if value is None else str(value)


def _median(case: Case, contender: str) -> float | None:
    return case["contenders"].get(contender, {}).get("median_ms")


def _error(result: dict[str, Any]) -> str:
    if "error" not in result:
        return "–"
    return "not finite" if result["error"] is None else f"{result['error']:.1e}"


def measurements(cases: list[Case]) -> Table:
    """One row a contender: time, spread, cost of compiling, memory, kernels, error."""
    table = Table(title="Times (median of interleaved rounds)", pad_edge=False)
    table.add_column("case")
    table.add_column("contender", no_wrap=True)
    for heading in ("ms", "±%", "comp s", "MiB", "k/fb", "error"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case in cases:
        name = case["name"]
        for contender, result in case["contenders"].items():
            counters = result.get("counters", {})
            kernels = ""
            if contender.startswith("opencl:") and counters:
                kernels = f"{_count(counters.get('kernels', 0))}/{counters.get('fallbacks', 0)}"
            spread = result.get("spread")
            compile_s, peak = result.get("compile_s"), result.get("peak_mib")
            failed = result["status"] != "ok"
            table.add_row(
                name,
                short_name(contender),
                Text(result["status"], style="red")
                if failed
                else milliseconds(result.get("median_ms")),
                "–" if spread is None else f"{spread * 100:.0f}",
                "–" if compile_s is None else f"{compile_s:.2f}",
                "–" if peak is None else f"{peak:.0f}",
                kernels,
                _error(result),
            )
            name = ""
        table.add_section()
    return table


def ratios(cases: list[Case], contenders: list[str]) -> Table:
    """Speed relative to eager, and each OpenCL device's to the better Inductor."""
    devices = [c for c in contenders if c.startswith("opencl:")]
    table = Table(title="Times faster (eager's time = 1)", pad_edge=False)
    table.add_column("case")
    table.caption = "device/ind: against the better of the two Inductors"
    others = [c for c in contenders if c != "eager"]
    for contender in others:
        table.add_column(short_name(contender), justify="right")
    for device in devices:
        table.add_column(f"{device.removeprefix('opencl:')}/ind", justify="right")
    columns: list[list[float]] = [[] for _ in range(len(others) + len(devices))]
    for case in cases:
        eager = _median(case, "eager")
        best = min(
            (t for c in ("inductor", "inductor-freezing") if (t := _median(case, c))),
            default=None,
        )
        pairs = [(eager, _median(case, c)) for c in others]
        pairs += [(best, _median(case, c)) for c in devices]
        for column, (reference, value) in zip(columns, pairs, strict=True):
            if reference and value:
                column.append(reference / value)
        table.add_row(case["name"], *(ratio(*pair) for pair in pairs))
    if len(cases) > 1:
        table.add_section()
        means = [math.exp(sum(map(math.log, c)) / len(c)) if c else None for c in columns]
        table.add_row("geometric mean", *(ratio(mean, 1.0) for mean in means))
    return table


def failures(cases: list[Case]) -> list[str]:
    """A line for each contender of each case that did not finish."""
    return [
        f"{case['name']} {contender}: {result['status']}: {result.get('message', '')}"
        for case in cases
        for contender, result in case["contenders"].items()
        if result["status"] != "ok"
    ]
