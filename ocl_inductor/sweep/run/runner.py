"""Running a sweep: every model in processes of its own, each result on disk once it is known."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.first_use import FirstUse
from ocl_inductor.sweep.process.isolation import Outcome, merge_caches, run_job
from ocl_inductor.sweep.process.job import Job, Mode, What
from ocl_inductor.sweep.record import FILE_NAME, SCHEMA, Record, SweepResults, append, read_results
from ocl_inductor.sweep.report.causes import cause_of
from ocl_inductor.sweep.rows.selection import SelectedRow
from ocl_inductor.sweep.run.batch import Point
from ocl_inductor.sweep.run.options import RunOptions
from ocl_inductor.sweep.status import Status, ended_early

EAGER = Backend("eager")
Say = Callable[[str], None]
RunJob = Callable[..., Outcome]


@dataclass(frozen=True, slots=True)
class Unit:
    """What is run and resumed as a whole: one model in one mode, accuracy or performance."""

    row: SelectedRow
    mode: Mode
    what: What

    @property
    def title(self) -> str:
        return f"{self.row.name} [{self.mode}] {self.what}"


class Watcher(Protocol):
    """Hears of a sweep's progress."""

    def started(self, unit: Unit, done: int, total: int) -> None: ...
    def said(self, text: str) -> None: ...
    def finished(self, unit: Unit, records: list[Record]) -> None: ...


def units(rows: Iterable[SelectedRow], options: RunOptions) -> list[Unit]:
    """The work on ``rows``, in their order. Modes a row does not support are left out."""
    return [
        Unit(row, mode, what)
        for row in rows
        for mode in options.modes
        if row.runs(mode)
        for what in options.whats
    ]


def backends_of(unit: Unit, options: RunOptions) -> tuple[Backend, ...]:
    """The backends that get a record: performance always has eager, to compare with."""
    if unit.what == "accuracy":
        return tuple(b for b in options.backends if not b.is_eager) or (EAGER,)
    return (EAGER, *(b for b in options.backends if not b.is_eager))


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs units one after the other and writes their records.

    Attributes:
        output: the folder for results.
        run_job: ``isolation.run_job``, or a stand-in.
    """

    options: RunOptions
    output: Path
    run_job: RunJob = run_job
    first_use: FirstUse = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first_use", FirstUse(self._use_first))

    @property
    def file(self) -> Path:
        return self.output / FILE_NAME

    def run(
        self, todo: list[Unit], watcher: Watcher, *, resume: bool, header: bool = True
    ) -> SweepResults:
        """Run what has no record yet, and return all results there are then.

        Args:
            resume: keep the records that are there, and run the units without one.
            header: describe machine and settings before the first result.
        """
        done = read_results(self.file).by_key() if resume and self.file.exists() else {}
        remaining = [unit for unit in todo if not self._has_records(unit, done)]
        if header and (remaining or not done):
            append(self.file, [self._header()])
        for index, unit in enumerate(remaining):
            watcher.started(unit, len(todo) - len(remaining) + index, len(todo))
            start = time.perf_counter()
            records = self.measure(unit, watcher.said)
            seconds = round(time.perf_counter() - start, 2)
            records = [dataclasses.replace(r, wall_s=seconds) for r in records]
            append(self.file, [r.as_json() for r in records])
            watcher.finished(unit, records)
        return read_results(self.file)

    def _header(self) -> dict[str, object]:
        outcome = self._job(Job("environment", threads=self.options.threads), None, lambda _: None)
        return {
            "event": "start",
            "schema": SCHEMA,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "environment": outcome.first("environment") or {"error": outcome.message},
            "settings": self.options.settings(),
        }

    def _has_records(self, unit: Unit, done: Mapping[str, Record]) -> bool:
        return all(key in done for key in self.keys(unit))

    def keys(self, unit: Unit) -> list[str]:
        """The keys of the records that ``unit`` gets."""
        backends = backends_of(unit, self.options)
        return [self.record(unit, backend, Status.PASS).key for backend in backends]

    def measure(self, unit: Unit, say: Say) -> list[Record]:
        """The records of one unit, one a backend."""
        if unit.row.expected(unit.mode) == "unsupported":
            why = unit.row.why("status")
            return [
                self.record(unit, backend, Status.UNSUPPORTED, why)
                for backend in backends_of(unit, self.options)
            ]
        if unit.what == "accuracy":
            return self._accuracies(unit, say)
        return self._performance(unit, say)

    # -- accuracy --------------------------------------------------------------------------

    def _accuracies(self, unit: Unit, say: Say) -> list[Record]:
        backends = backends_of(unit, self.options)
        if len(backends) == 1:
            return [self._accuracy(unit, backends[0], say, None)]
        with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
            references = str(Path(folder, "references.pt"))
            return [self._accuracy(unit, backend, say, references) for backend in backends]

    def _accuracy(self, unit: Unit, backend: Backend, say: Say, references: str | None) -> Record:
        say(f"{unit.title}: {backend.label}")
        job = self.options.job("accuracy", unit.row, unit.mode, (backend,), references=references)
        with tempfile.TemporaryDirectory(prefix="sweep-") as scratch:
            caches = Path(scratch) if self.options.cold_start else None
            outcome = self._job(job, caches, lambda text: say(f"{unit.title}: {text}"))
        verdict = outcome.first("accuracy")
        metrics = outcome.first("details") or {}
        if verdict is None or outcome.status in ("timeout", "oom"):
            return self._failed(unit, backend, outcome)
        status, message = Status(verdict["status"]), verdict["message"]
        if outcome.status == "crashed":  # when a driver is unloaded, say
            status, message = Status.FAIL_TO_RUN, f"after its results: {outcome.message}"
        log = "" if status.good else outcome.log
        return self.record(unit, backend, status, message, metrics, log)

    # -- performance -----------------------------------------------------------------------

    def _performance(self, unit: Unit, say: Say) -> list[Record]:
        backends = backends_of(unit, self.options)
        records: dict[str, Record] = {}
        alone: dict[str, dict[str, object]] = {}
        with tempfile.TemporaryDirectory(prefix="sweep-") as scratch:
            folders = {b.label: Path(scratch, f"cold{i}") for i, b in enumerate(backends)}
            for backend in backends:
                self.first_use.caches(backend, folders[backend.label])
                say(f"{unit.title}: {backend.label}, cold")
                job = self.options.job("cold", unit.row, unit.mode, (backend,))
                outcome = self._job(job, folders[backend.label], lambda text: None)
                cold = outcome.first("cold")
                if cold is None:
                    records[backend.label] = self._failed(unit, backend, outcome)
                    if backend.is_eager:  # nothing to compare with
                        failed = records[backend.label]
                        return [
                            self.record(unit, b, failed.status, failed.message, {}, failed.log)
                            for b in backends
                        ]
                    continue
                cold |= outcome.first("guards") or {}
                cold |= outcome.first("breakdown") or {}
                alone[backend.label] = cold
            healthy = tuple(b for b in backends if b.label in alone)
            shared = Path(scratch, "shared")
            merge_caches([folders[b.label] for b in healthy], shared)
            job = self.options.job("timed", unit.row, unit.mode, healthy)
            limits = self.options.limits
            together = Limits(limits.timeout_s * len(healthy), limits.memory_bytes)
            outcome = self._job(job, shared, lambda text: say(f"{unit.title}: {text}"), together)
        timed = _by_backend(outcome)
        eager_ms = timed.get(EAGER.label, {}).get("median_ms")
        inductor_ms = next(
            (timed[b.label].get("median_ms") for b in healthy if b.name == "inductor"
             and b.label in timed), None,
        )  # fmt: skip
        for backend in healthy:
            label = backend.label
            found = timed.get(label, {})
            if "median_ms" not in found:
                if "status" in found:
                    records[label] = self.record(
                        unit, backend, Status(found["status"]), found["message"], {}, outcome.log
                    )
                else:  # the process all of them share died: whose fault it was is not known
                    records[label] = self._failed(unit, backend, outcome)
                continue
            metrics = performance_metrics(
                alone[label], found, eager_ms, inductor_ms, alone[EAGER.label], self.options
            )
            records[label] = self.record(unit, backend, Status.PASS, "", metrics)
        return [records[b.label] for b in backends]

    def throughput(self, unit: Unit, backend: Backend, batch_size: int) -> Point:
        """One backend at one batch size."""
        job = self.options.job("throughput", unit.row, unit.mode, (backend,), batch_size=batch_size)
        outcome = self._job(job, None, lambda text: None)
        found = outcome.first("throughput")
        if found is None:
            failed = self._failed(unit, backend, outcome)
            return Point(batch_size, failed.status, message=failed.message)
        return Point(batch_size, Status.PASS, found["median_ms"], found["host_mib"])

    def _use_first(self, backend: Backend, caches: Path) -> None:
        """A failure shows again in whatever is measured next, and counts there."""
        job = Job("first_use", backends=(backend.label,), threads=self.options.threads)
        self._job(job, caches, lambda text: None)

    # -- common ----------------------------------------------------------------------------

    def _job(
        self, job: Job, caches: Path | None, say: Say, limits: Limits | None = None
    ) -> Outcome:
        return self.run_job(job.as_json(), caches, limits or self.options.limits, say)

    def _failed(self, unit: Unit, backend: Backend, outcome: Outcome) -> Record:
        """The record of a process that ended before it could say how the model fared."""
        phases = [e["phase"] for e in outcome.events if e["event"] == "phase"]
        status = ended_early(outcome.status, phases[-1] if phases else "start")
        return self.record(unit, backend, status, outcome.message, {}, outcome.log)

    def record(
        self,
        unit: Unit,
        backend: Backend,
        status: Status,
        message: str = "",
        metrics: Mapping[str, object] | None = None,
        log: str = "",
    ) -> Record:
        options, row = self.options, unit.row
        expected = row.expected(unit.mode)
        return Record(
            name=row.name,
            domain=row.domain,
            mode=unit.mode,
            what=unit.what,
            backend=backend.label,
            dtype=options.dtype,
            batch_size=options.batch_for(row, unit.mode, unit.what),
            status=status,
            message=message,
            cause="" if status.good else cause_of(status, message),
            expected=expected,
            why=row.why("status") if expected != "pass" else "",
            dynamic=options.dynamic,
            sizes=options.sizes_for(row),
            metrics=dict(metrics or {}),
            reproduce=options.command(row, unit.mode, unit.what, backend, status),
            log="\n".join(log.strip().splitlines()[-40:]),
        )


def _by_backend(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """What the common process said of each backend."""
    found: dict[str, dict[str, object]] = {}
    for event in outcome.events:
        if "backend" not in event:
            continue
        values = {k: v for k, v in event.items() if k not in ("event", "backend")}
        found.setdefault(event["backend"], {}).update(values)
    return found


def performance_metrics(
    alone: Mapping[str, Any],
    timed: Mapping[str, Any],
    eager_ms: float | None,
    inductor_ms: float | None,
    eager_alone: Mapping[str, Any],
    options: RunOptions,
) -> dict[str, Any]:
    """The numbers of one backend. ``alone``: from its own process; ``timed``: from the common one.

    ``abs_latency`` and ``eager_latency`` are milliseconds, memory is MiB, the rest of the times
    seconds. ``compression_ratio`` is eager's memory divided by this backend's.
    """
    median = timed["median_ms"]
    cold, warm = alone["first_call_s"], timed["first_call_s"]
    first = cold if options.cold_start else warm
    own_mib, eager_mib = alone["host_mib"], eager_alone["host_mib"]
    return {
        "speedup": eager_ms / median if eager_ms else None,
        "speedup_over_inductor": inductor_ms / median if inductor_ms else None,
        "abs_latency": median,
        "eager_latency": eager_ms,
        "latency_spread": timed["spread"],
        "latency_min": timed["min_ms"],
        "samples_ms": [round(s, 4) for s in timed["samples_ms"]],
        "compilation_latency": max(0.0, first - median / 1e3),
        "first_call_cold_s": cold,
        "first_call_warm_s": warm,
        "startup_s": alone["startup_s"],
        "host_mib": own_mib,
        "host_compiling_mib": alone["host_compiling_mib"],
        "eager_host_mib": eager_mib,
        "compression_ratio": eager_mib / own_mib if own_mib and eager_mib else None,
        **{
            k: v
            for k, v in alone.items()
            if k not in ("first_call_s", "host_mib", "host_compiling_mib", "startup_s")
        },
    }
