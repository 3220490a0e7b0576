"""Geometry of the report's charts: numbers in, positions out. The template draws them as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ocl_inductor.sweep.record import Record

#: Pixels: of the label column, the plotting area, one bar's row, and the axis below.
LABELS, PLOT, ROW, AXIS = 250, 560, 20, 34
SCATTER_HEIGHT = 340
PARTS = ("active", "data_movement", "idle")


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis at ``at`` pixels."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal bar from ``x``, ``width`` pixels long, on line ``y``.

    ``kind`` names its colour: ``faster``, ``slower``, ``even`` or a part of the breakdown.
    """

    label: str
    value: str
    x: float
    y: float
    width: float
    kind: str
    hint: str


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    series: int
    hint: str
    clamped: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing of ``width`` by ``height`` pixels."""

    title: str
    width: float
    height: float
    bars: tuple[Bar, ...] = ()
    dots: tuple[Dot, ...] = ()
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    baseline: float | None = None
    series: tuple[str, ...] = ()
    x_label: str = ""
    y_label: str = ""


def geometric_mean(values: Iterable[float]) -> float | None:
    logs = [math.log(v) for v in values if v > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _decades(low: float, high: float, steps: Sequence[float]) -> list[float]:
    """The values ``step * 10**n`` from ``low`` to ``high``."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [step * 10.0**n for n in range(first, last + 1) for step in steps]
    return [v for v in values if low * 0.999 <= v <= high * 1.001]


def _log_position(value: float, low: float, high: float, length: float) -> float:
    share = (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    return min(max(share, 0.0), 1.0) * length


def number(value: float) -> str:
    """Three significant digits without an exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def speedup_bars(title: str, records: Iterable[Record]) -> Chart | None:
    """Speedups over eager, best first, on a logarithmic axis around 1; None without any."""
    found = [(r, s) for r in records if (s := r.metric("speedup"))]
    if not found:
        return None
    found.sort(key=lambda pair: pair[1], reverse=True)
    low = min(0.5, min(s for _, s in found) / 1.1)
    high = max(2.0, max(s for _, s in found) * 1.1)
    origin = _log_position(1.0, low, high, PLOT)
    bars = []
    for index, (record, speedup) in enumerate(found):
        end = _log_position(speedup, low, high, PLOT)
        kind = "faster" if speedup >= 1.03 else "slower" if speedup <= 0.97 else "even"
        latency, eager = record.metric("abs_latency"), record.metric("eager_latency")
        hint = f"{record.title}: {speedup:.2f}×"
        if latency and eager:
            hint += f", {number(latency)} ms, eager {number(eager)} ms"
        bars.append(
            Bar(
                record.name,
                f"{speedup:.2f}×",
                LABELS + min(origin, end),
                index * ROW,
                max(1.0, abs(end - origin)),
                kind,
                hint,
            )
        )
    ticks = tuple(
        Tick(LABELS + _log_position(v, low, high, PLOT), f"{v:g}×")
        for v in _decades(low, high, (1, 2, 5))
    )
    height = len(found) * ROW + AXIS
    return Chart(
        title, LABELS + PLOT + 60, height, tuple(bars), x_ticks=ticks, baseline=LABELS + origin
    )


def compile_memory_scatter(title: str, groups: Sequence[tuple[str, Sequence[Record]]]) -> Chart:
    """Seconds of the first call with empty caches against memory compared with eager.

    A dot is a model; ``groups`` are series by name. Higher and more to the left is better.
    """
    points = [
        (index, record, seconds, ratio)
        for index, (_, records) in enumerate(groups)
        for record in records
        if (seconds := record.metric("first_call_cold_s"))
        and (ratio := record.metric("compression_ratio"))
    ]
    xs = [p[2] for p in points] or [1.0]
    ys = [p[3] for p in points] or [1.0]
    x_low, x_high = min(0.1, min(xs) / 1.2), max(10.0, max(xs) * 1.2)
    y_low, y_high = min(0.5, min(ys) / 1.2), max(2.0, max(ys) * 1.2)
    dots = tuple(
        Dot(
            60 + _log_position(seconds, x_low, x_high, PLOT),
            SCATTER_HEIGHT - _log_position(ratio, y_low, y_high, SCATTER_HEIGHT - 10),
            index,
            f"{record.title}, {record.backend}: first call {number(seconds)} s, "
            f"memory 1/{number(ratio)} of eager's",
        )
        for index, record, seconds, ratio in points
    )
    y_values = _decades(y_low, y_high, (1, 2, 5))
    return Chart(
        title,
        PLOT + 90,
        SCATTER_HEIGHT + AXIS + 14,
        dots=dots,
        x_ticks=tuple(
            Tick(60 + _log_position(v, x_low, x_high, PLOT), f"{v:g}")
            for v in _decades(x_low, x_high, (1, 10) if x_high / x_low > 1e4 else (1, 3))
        ),
        y_ticks=tuple(
            Tick(SCATTER_HEIGHT - _log_position(v, y_low, y_high, SCATTER_HEIGHT - 10), f"{v:g}×")
            for v in y_values
        ),
        series=tuple(name for name, _ in groups),
        x_label="first call with empty caches, seconds",
        y_label="eager's memory / this backend's",
    )


def breakdown_bars(title: str, rows: Sequence[tuple[str, dict[str, float]]]) -> Chart | None:
    """Stacked shares of device active, data movement and idle; None without rows."""
    if not rows:
        return None
    bars = []
    for index, (label, shares) in enumerate(rows):
        x = float(LABELS)
        for part in PARTS:
            width = shares.get(part, 0.0) * PLOT
            name = part.replace("_", " ")
            hint = f"{label}: {name} {shares.get(part, 0.0):.0%}"
            text = f"{shares.get('active', 0.0):.0%} active" if part == PARTS[-1] else ""
            bars.append(Bar(label, text, x, index * ROW, width, part, hint))
            x += width
    ticks = tuple(Tick(LABELS + PLOT * n / 4, f"{n * 25} %") for n in range(5))
    return Chart(title, LABELS + PLOT + 80, len(rows) * ROW + AXIS, tuple(bars), x_ticks=ticks)


def mean_breakdown(records: Iterable[Record]) -> dict[str, float] | None:
    """The mean of the records' shares; None where none has any."""
    found = [r.metrics["breakdown"] for r in records if r.metrics.get("breakdown")]
    if not found:
        return None
    return {part: sum(b.get(part, 0.0) for b in found) / len(found) for part in PARTS}
