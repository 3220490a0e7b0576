"""Tables of measurements for a terminal or a pipe of 80 columns."""

from __future__ import annotations

import math
from typing import Any

from rich import box
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


def _median(case: Case, contender: str) -> float | None:
    return case["contenders"].get(contender, {}).get("median_ms")


def _error(result: dict[str, Any]) -> str:
    if "error" not in result:
        return "–"
    return "not finite" if result["error"] is None else f"{result['error']:.1e}"


LEGEND = """\
alone: ms of a contender by itself in a process of its own; cold, warm: seconds
to the first result after imports, in a process that finds empty caches and in
a later one; MiB: peak resident memory of the first; k/fb: kernels and fallbacks
of a call; MB: each kernel's operands read or written once; roof: share of the
time that the device's measured bandwidth and best rate in float32 allow; error:
largest distance from float64 over all outputs.
"""


def measurements(cases: list[Case]) -> Table:
    """One row a contender: time, spread, first results, memory, kernels, share of roof, error."""
    table = Table(
        title="Times (median of interleaved rounds)", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("case")
    table.add_column("contender", no_wrap=True)
    for heading in ("ms", "±%", "alone", "cold", "warm", "MiB", "k/fb", "MB", "roof", "error"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case in cases:
        for position, (contender, result) in enumerate(case["contenders"].items()):
            table.add_row(
                case["name"] if position == 0 else "",
                short_name(contender),
                Text(result["status"], style="red")
                if result["status"] != "ok"
                else milliseconds(result.get("median_ms")),
                formatted(result.get("spread"), "{:.0%}").rstrip("%"),
                milliseconds(result.get("alone_ms")),
                formatted(result.get("compile_s"), "{:.1f}"),
                formatted(result.get("warm_s"), "{:.1f}"),
                formatted(result.get("peak_mib"), "{:.0f}"),
                _kernels(contender, result),
                "" if "bytes" not in result else f"{result['bytes'] / 1e6:.0f}",
                _share_of_roof(result),
                _error(result),
            )
        table.add_section()
    return table


def formatted(value: float | None, form: str) -> str:
    """``value`` in ``form``, or a dash where it was not measured."""
    return "–" if value is None else form.format(value)


def _kernels(contender: str, result: dict[str, Any]) -> str:
    counters = result.get("counters", {})
    if not contender.startswith("opencl:") or not counters:
        return ""
    return f"{counters.get('kernels', 0)}/{counters.get('fallbacks', 0)}"


def _share_of_roof(result: dict[str, Any]) -> str:
    least, median = result.get("least_ms"), result.get("median_ms")
    return f"{least / median:.0%}" if least and median else ""


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
