"""The HTML report of a sweep: one file that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ocl_inductor.sweep.record import Record, SweepResults
from ocl_inductor.sweep.report import charts
from ocl_inductor.sweep.report.charts import Chart, geometric_mean
from ocl_inductor.sweep.status import Status


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One domain, mode and backend.

    ``passed`` of ``checked`` models pass accuracy; ``timed`` have a speedup, ``slower`` of which
    are below 1.
    """

    domain: str
    mode: str
    backend: str
    checked: int
    passed: int
    timed: int
    slower: int
    speedup: float | None
    over_inductor: float | None
    memory: float | None
    breakdown: dict[str, float] | None


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with one cause; ``blame`` says whether the backend or something else failed."""

    cause: str
    status: Status
    records: tuple[Record, ...]

    @property
    def announced(self) -> bool:
        """Whether every one of them is what its row says will happen."""
        return all(r.expected == str(r.status) for r in self.records)


def summarise(records: Sequence[Record]) -> list[SummaryRow]:
    """A row for each mode, backend and domain, and one for all domains before those."""
    rows = []
    for mode in sorted({r.mode for r in records}):
        for backend in _backends(records):
            members = [r for r in records if r.mode == mode and r.backend == backend]
            if not members:
                continue
            rows.append(_summary("all", mode, backend, members))
            domains = sorted({r.domain for r in members})
            if len(domains) > 1:
                rows += [
                    _summary(d, mode, backend, [r for r in members if r.domain == d])
                    for d in domains
                ]
    return rows


def _backends(records: Sequence[Record]) -> list[str]:
    """The backends but eager, in the order of their first results."""
    return [b for b in dict.fromkeys(r.backend for r in records) if b != "eager"]


def _summary(domain: str, mode: str, backend: str, members: Sequence[Record]) -> SummaryRow:
    checked = [r for r in members if r.what == "accuracy"]
    speedups = [s for r in members if (s := r.metric("speedup"))]

    def mean(name: str) -> float | None:
        return geometric_mean(v for r in members if (v := r.metric(name)))

    return SummaryRow(
        domain,
        mode,
        backend,
        len(checked),
        sum(r.status.good for r in checked),
        len(speedups),
        sum(s < 1 for s in speedups),
        geometric_mean(speedups),
        mean("speedup_over_inductor"),
        mean("compression_ratio"),
        charts.mean_breakdown(members),
    )


def group_failures(records: Sequence[Record]) -> list[FailureGroup]:
    """Failures by cause; unexpected ones first, larger groups first."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if not record.status.good:
            groups.setdefault(record.cause, []).append(record)
    found = [FailureGroup(cause, rs[0].status, tuple(rs)) for cause, rs in groups.items()]
    return sorted(found, key=lambda g: (g.announced, -len(g.records), g.cause))


def _speedup_charts(records: Sequence[Record]) -> list[Chart]:
    found = []
    for mode in sorted({r.mode for r in records}):
        for backend in _backends(records):
            members = [r for r in records if r.mode == mode and r.backend == backend]
            title = f"{mode}, {backend}: speedup over eager"
            if (chart := charts.speedup_bars(title, members)) is not None:
                found.append(chart)
    return found


def _breakdown_charts(records: Sequence[Record]) -> list[Chart]:
    measured = [r for r in records if r.metrics.get("breakdown")]
    found = []
    for mode in sorted({r.mode for r in measured}):
        for backend in _backends(measured):
            members = [r for r in measured if r.mode == mode and r.backend == backend]
            domains = []
            for domain in sorted({r.domain for r in members}):
                mean = charts.mean_breakdown(r for r in members if r.domain == domain)
                if mean is not None:
                    domains.append((domain, mean))
            models = [
                (r.name, dict(r.metrics["breakdown"]))
                for r in sorted(members, key=lambda r: -r.metrics["breakdown"].get("active", 0))
            ]
            for title, rows in (("by domain", domains), ("by model", models)):
                chart = charts.breakdown_bars(f"{mode}, {backend}: {title}", rows)
                if chart is not None:
                    found.append(chart)
    return found


def _scatter(records: Sequence[Record]) -> Chart | None:
    groups = [
        (backend, [r for r in records if r.backend == backend and r.metric("compression_ratio")])
        for backend in _backends(records)
    ]
    groups = [(name, members) for name, members in groups if members]
    if not groups:
        return None
    return charts.compile_memory_scatter("Compile time and memory", groups)


def render_report(results: SweepResults) -> str:
    """The page. Every value from results is escaped."""
    environment = Environment(
        loader=PackageLoader("ocl_inductor.sweep.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _text
    environment.filters["percent"] = lambda v: "–" if v is None else f"{v:.0%}"
    records = results.records
    page: str = environment.get_template("report.html.jinja").render(
        environment=results.environment,
        settings=results.settings,
        machine=machine(results.environment),
        summary=summarise(records),
        speedups=_speedup_charts(records),
        scatter=_scatter(records),
        breakdowns=_breakdown_charts(records),
        failures=group_failures(records),
        records=sorted(records, key=lambda r: (r.name, r.mode, r.what, r.backend)),
        statuses=[(s, sum(r.status is s for r in records)) for s in Status],
        row=charts.ROW,
        labels=charts.LABELS,
        axis=charts.AXIS,
    )
    return page


def machine(environment: Any) -> list[tuple[str, str]]:
    """What a reader must know about the machine, as (what, text)."""
    cpu = environment.get("cpu", {})
    packages = environment.get("packages", {})
    devices = environment.get("opencl_devices", [])
    rows = [
        ("processor", f"{cpu.get('model', '?')}, {cpu.get('usable_cores', '?')} cores"),
        ("vector units", str(environment.get("torch_cpu_capability", "?"))),
        ("threads of torch", str(environment.get("torch_threads", "?"))),
        ("system", f"{environment.get('system', '?')}, Python {environment.get('python', '?')}"),
        ("commit", str(environment.get("commit") or "?")),
        ("packages", ", ".join(f"{name} {version}" for name, version in packages.items())),
    ]
    rows += [
        ("OpenCL", f"{d['platform']}: {d['name']}, {d['version']}, driver {d['driver']}")
        for d in devices
        if "platform" in d
    ]
    return [(what, text) for what, text in rows if text and not text.startswith("?")]


def _text(value: object) -> str:
    if value is None:
        return "–"
    return charts.number(value) if isinstance(value, float) else str(value)
