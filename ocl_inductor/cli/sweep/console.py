"""Tables and summaries of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ocl_inductor.sweep.record import Record


def results_table(records: Sequence[Record]) -> Table:
    """A line a record: status, and for performance time, speedup, compile time, memory."""
    timed = any(r.what == "performance" for r in records)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("model", "mode", "backend", "status"):
        table.add_column(heading, overflow="fold")
    if timed:
        for heading in ("ms", "±%", "× eager", "cold s", "warm s", "MiB"):
            table.add_column(heading, justify="right", no_wrap=True)
    for record in records:
        row: list[str | Text] = [_name(record), record.mode[:5], record.backend, _status(record)]
        if timed:
            row += [
                _number(record.metric("abs_latency")),
                _number(record.metric("latency_spread"), 100),
                _number(record.metric("speedup")),
                _number(record.metric("first_call_cold_s")),
                _number(record.metric("first_call_warm_s")),
                _number(record.metric("host_mib")),
            ]
        table.add_row(*row)
    return table


def _name(record: Record) -> str:
    return record.name + "".join(f" {symbol}={size}" for symbol, size in record.sizes)


def _status(record: Record) -> Text:
    style = "green" if record.status.good else "red"
    return Text(str(record.status), style=style)


def _number(value: float | None, factor: float = 1.0) -> str:
    from ocl_inductor.sweep.charts import number

    return "–" if value is None else number(value * factor)


def summary_lines(records: Sequence[Record]) -> Iterable[str]:
    """Totals, geometric means, and every failure with its command."""
    from ocl_inductor.sweep.charts import geometric_mean
    from ocl_inductor.sweep.report import group_failures

    counts = Counter(str(r.status) for r in records)
    yield ", ".join(f"{n} {status}" for status, n in counts.most_common())
    for mode in sorted({r.mode for r in records}):
        for backend in dict.fromkeys(r.backend for r in records if r.backend != "eager"):
            members = [r for r in records if r.mode == mode and r.backend == backend]
            mean = geometric_mean(s for r in members if (s := r.metric("speedup")))
            over = geometric_mean(s for r in members if (s := r.metric("speedup_over_inductor")))
            if mean is not None:
                text = f"{mode}, {backend}: {mean:.2f} times eager's speed (geometric mean)"
                if over is not None and not backend.startswith("inductor"):
                    text += f", {over:.2f} times Inductor's"
                yield text
    for group in group_failures(records):
        yield ""
        yield f"{len(group.records)} × {group.cause}"
        for record in group.records:
            yield f"  {record.title}, {record.backend}: {record.message or record.status.meaning}"
            yield f"    {record.reproduce}"
