"""Write a folder of committed sweep results anew: ``python tools/results_readme.py FOLDER``.

``FOLDER`` holds the ``results.jsonl`` of ``ocl-inductor sweep run``. This makes the CSV tables and
``report.html`` from it, and the parts of its ``README.md`` between markers, so that no number there
is written by hand:

- ``counts``: how many rows ran and passed, by mode and backend;
- ``failed``: what did not pass;
- ``notable``: what a reader should know of rows that passed;
- ``missing``: rows without a result;
- ``speed``: geometric means and the time of each row, of a performance run;
- ``untimed``: rows without a time, by mode.

A page has the markers of the parts it wants.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ocl_inductor.sweep.process.job import Mode
from ocl_inductor.sweep.record import Record, SweepResults, read_results
from ocl_inductor.sweep.report.charts import geometric_mean
from ocl_inductor.sweep.report.tables import write_outputs
from ocl_inductor.sweep.rows.config import load_all
from ocl_inductor.sweep.rows.schema import ModelConfig

MODES: tuple[Mode, ...] = ("inference", "training")
WIDTH = 100
Rows = Mapping[str, ModelConfig]


@dataclass(frozen=True, slots=True)
class Sweep:
    """The results of a folder and the rows of this checkout."""

    records: tuple[Record, ...]
    rows: Rows

    def of(self, mode: Mode, backend: str, what: str = "accuracy") -> dict[str, Record]:
        return {
            r.name: r
            for r in self.records
            if (r.mode, r.backend, r.what) == (mode, backend, what) and r.name in self.rows
        }

    def names(self, mode: Mode, *, paper: bool) -> set[str]:
        """The rows that run in ``mode``: those of the paper, or those added since."""
        return {
            name
            for name, row in self.rows.items()
            if mode in row.modes and ("paper" in row.suites) == paper
        }

    def backends(self, what: str) -> list[str]:
        """In the order of their first results, eager last."""
        found = dict.fromkeys(r.backend for r in self.records if r.what == what)
        return sorted(found, key=lambda backend: backend == "eager")


def counts(sweep: Sweep) -> str:
    lines = ["| | rows | ran | pass |", "|---|---:|---:|---:|"]
    for backend in sweep.backends("accuracy"):
        for mode in MODES:
            found = sweep.of(mode, backend)
            for paper in (True, False):
                names = sweep.names(mode, paper=paper)
                ran = [record for name, record in found.items() if name in names]
                if not names or not found:
                    continue
                group = "the paper's rows" if paper else "rows added since"
                if mode == "training" and paper:
                    group += " that TorchBench trains"
                passed = sum(record.status.good for record in ran)
                cells = (f"`{backend}`, {mode}, {group}", len(names), len(ran), passed)
                lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def failed(sweep: Sweep) -> str:
    found = [record for record in sweep.records if not record.status.good]
    if not found:
        return "Nothing of what ran."
    return bullets(
        f"`{r.name}`, {r.mode}, `{r.backend}`: {r.status}: {r.message or r.why}" for r in found
    )


def notable(sweep: Sweep) -> str:
    lines = []
    for record in sweep.records:
        if not record.status.good or record.what != "accuracy":
            continue
        notes = [*_notes(record), *_allowances(record, sweep.rows.get(record.name))]
        if notes:
            lines.append(f"`{record.name}`, {record.mode}, `{record.backend}`: {'; '.join(notes)}")
    return bullets(lines) if lines else "Nothing."


def _notes(record: Record) -> list[str]:
    metrics = record.metrics
    notes = []
    if metrics.get("fallbacks"):
        operators = ", ".join(f"`{name}`" for name in metrics["fallback_operators"])
        notes.append(f"{metrics['fallbacks']} operators run on the host ({operators})")
    if metrics.get("graph_breaks"):
        notes.append(f"{metrics['graph_breaks']} graph breaks, {metrics['unique_graphs']} graphs")
    if (metrics.get("metric") or "allclose") != "allclose":
        notes.append(f"compared by {metrics['metric']}")
    return notes


def _allowances(record: Record, row: ModelConfig | None) -> list[str]:
    """What the row allows beyond the common rule, and why."""
    tolerance = None if row is None else row.tolerance.get(record.dtype)
    if row is None or tolerance is None or tolerance.mode not in (None, record.mode):
        return []
    bounds = tolerance.model_dump(exclude_none=True, exclude={"mode"})
    listed = ", ".join(f"{name} {value:g}" for name, value in bounds.items())
    return [f"allowed {listed}: {row.why['tolerance']}"]


def missing(sweep: Sweep) -> str:
    lines = []
    for backend in sweep.backends("accuracy"):
        for mode in MODES:
            names = sweep.names(mode, paper=True) | sweep.names(mode, paper=False)
            absent = sorted(names - sweep.of(mode, backend).keys())
            if absent:
                listed = ", ".join(f"`{name}`" for name in absent)
                lines.append(f"**`{backend}`, {mode}** ({len(absent)}): {listed}")
    return bullets(lines) if lines else "Every row has run."


def speed(sweep: Sweep) -> str:
    """A line a model and backend, after the geometric means of each backend."""
    lines = [
        "| | mode | backend | ms | ± % | times eager | times Inductor | first call, cold s |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    means = []
    for mode in MODES:
        timed: dict[str, dict[str, Record]] = {}
        for backend in sweep.backends("performance"):
            found = sweep.of(mode, backend, "performance")
            timed[backend] = {n: r for n, r in found.items() if r.metric("abs_latency")}
            if timed[backend] and backend != "eager":
                means.append(_mean(mode, backend, timed[backend]))
        for name in sorted({name for found in timed.values() for name in found}):
            lines += [_line(found[name]) for found in timed.values() if name in found]
    return "\n".join([bullets(means), "", *lines])


def _line(record: Record) -> str:
    spread = record.metric("latency_spread")
    numbers = (
        record.metric("abs_latency"), None if spread is None else 100 * spread,
        record.metric("speedup"), record.metric("speedup_over_inductor"),
        record.metric("first_call_cold_s"),
    )  # fmt: skip
    cells = (f"`{record.name}`", record.mode, f"`{record.backend}`", *map(_number, numbers))
    return "| " + " | ".join(cells) + " |"


def untimed(sweep: Sweep) -> str:
    """The modes that were measured here, each with its rows that were not."""
    lines = []
    for mode in MODES:
        timed = {r.name for r in sweep.records if r.mode == mode and r.metric("abs_latency")}
        rows = {name for name, row in sweep.rows.items() if mode in row.modes}
        if timed and rows - timed:
            lines.append(f"{mode}: {', '.join(f'`{name}`' for name in sorted(rows - timed))}")
    return bullets(lines) if lines else "None."


def _mean(mode: Mode, backend: str, timed: Mapping[str, Record]) -> str:
    texts = []
    for metric, other in (("speedup", "eager"), ("speedup_over_inductor", "Inductor")):
        values = [v for r in timed.values() if (v := r.metric(metric)) is not None]
        mean = geometric_mean(values)
        if mean is not None and not (backend.startswith("inductor") and other == "Inductor"):
            slower = sum(v < 1 for v in values)
            texts.append(f"{mean:.2f} × {other} ({slower} of {len(values)} models are slower)")
    return f"**{mode}, `{backend}`**: {', '.join(texts)}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def bullets(items: Iterable[str]) -> str:
    """A Markdown list in lines of at most ``WIDTH`` characters, but for long words."""
    return "\n".join(
        textwrap.fill(
            f"- {item}", WIDTH, subsequent_indent="  ", break_long_words=False,
            break_on_hyphens=False,
        )
        for item in items
    )  # fmt: skip


PARTS: Mapping[str, Callable[[Sweep], str]] = {
    "counts": counts, "failed": failed, "notable": notable, "missing": missing, "speed": speed,
    "untimed": untimed,
}  # fmt: skip


def renewed(page: str, results: SweepResults, rows: Rows) -> str:
    """``page`` with every part between markers written from ``results``."""
    sweep = Sweep(results.records, rows)
    for name, part in PARTS.items():
        marker = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        text = part(sweep) if marker.search(page) else ""
        page = marker.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)  # type: ignore[misc]
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a folder of sweep results anew.")
    parser.add_argument("folder", type=Path, help="with results.jsonl and README.md")
    folder: Path = parser.parse_args().folder
    results, page = read_results(folder), folder / "README.md"
    for path in write_outputs(results, folder):
        if path.name == "metrics.json":  # all of it is in results.jsonl, and it is large
            path.unlink()
        else:
            print(path)
    page.write_text(renewed(page.read_text(), results, load_all()))
    print(page)


if __name__ == "__main__":
    main()
