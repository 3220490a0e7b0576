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
    """A line for each model, mode and backend: accuracy, time, speedup, compile time, memory."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((_name(record), record.mode, record.backend), []).append(record)
    timed = any(r.what == "performance" for r in records)
    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("model", "mode", "backend", "status"):
        table.add_column(heading, overflow="fold")
    if timed:
        for heading in ("ms", "±%", "×", "cold s", "MiB"):
            table.add_column(heading, justify="right", no_wrap=True)
    for (name, mode, backend), members in groups.items():
        row: list[str | Text] = [name, mode[:5], backend, _status(members)]
        if timed:
            row += [
                _number(members, "abs_latency"),
                _number(members, "latency_spread", 100),
                _number(members, "speedup"),
                _number(members, "first_call_cold_s"),
                _number(members, "host_mib"),
            ]
        table.add_row(*row)
    return table


def _name(record: Record) -> str:
    return record.name + "".join(f" {symbol}={size}" for symbol, size in record.sizes)


def _status(members: Sequence[Record]) -> Text:
    """What went wrong, or that nothing did."""
    bad = [str(r.status) for r in members if not r.status.good]
    if bad:
        return Text("\n".join(dict.fromkeys(bad)), style="red")
    return Text(str(members[0].status), style="green")


def _number(members: Sequence[Record], name: str, factor: float = 1.0) -> str:
    from ocl_inductor.sweep.report.charts import number

    value = next((v for r in members if (v := r.metric(name)) is not None), None)
    return "–" if value is None else number(value * factor)


def summary_lines(records: Sequence[Record]) -> Iterable[str]:
    """Totals, geometric means, and every failure with its command."""
    from ocl_inductor.sweep.report.charts import geometric_mean
    from ocl_inductor.sweep.report.report import group_failures

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
