"""The runner with a stand-in for processes: statuses, resuming, numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rows import write_row

from ocl_inductor.support.child_process import Limits
from ocl_inductor.sweep.process.backends import Backend
from ocl_inductor.sweep.process.isolation import Outcome
from ocl_inductor.sweep.record import Record, append, read_results
from ocl_inductor.sweep.rows.selection import Selection
from ocl_inductor.sweep.run.options import RunOptions
from ocl_inductor.sweep.run.runner import Runner, Unit, units
from ocl_inductor.sweep.status import Status

OPENCL, INDUCTOR = "opencl", "inductor"
COLD = {"first_call_s": 2.0, "host_mib": 50.0, "host_compiling_mib": 70.0, "startup_s": 1.0}
MS = {"eager": 10.0, OPENCL: 5.0, INDUCTOR: 8.0}


class Silent:
    """Hears everything and says nothing."""

    def __init__(self) -> None:
        self.units: list[str] = []

    def started(self, unit: Unit, done: int, total: int) -> None:
        self.units.append(unit.title)

    def said(self, text: str) -> None: ...
    def finished(self, unit: Unit, records: list[Record]) -> None: ...


def event(kind: str, **values: Any) -> dict[str, Any]:
    return {"event": kind, **values}


def healthy(job: Mapping[str, Any]) -> Outcome:
    """What a process answers when all is well."""
    match job["kind"]:
        case "environment":
            return Outcome("ok", events=[event("environment", machine="here")])
        case "first_use":
            return Outcome("ok")
        case "accuracy":
            return Outcome("ok", events=[event("accuracy", status="pass", message="")])
        case "cold":
            eager = job["backends"] == ["eager"] or tuple(job["backends"]) == ("eager",)
            return Outcome(
                "ok", events=[event("cold", **COLD | {"host_mib": 80.0 if eager else 50.0})]
            )
    found = []
    for label in job["backends"]:
        found.append(event("warm", backend=label, first_call_s=0.5))
        found.append(event("timing", backend=label, median_ms=MS[label], min_ms=MS[label] * 0.9,
                           spread=0.02, samples_ms=[MS[label]] * 3))  # fmt: skip
    return Outcome("ok", events=found)


def make(
    tmp_path: Path, answer: Callable[[Mapping[str, Any]], Outcome], what: str, **fields: Any
) -> tuple[Runner, list[Unit]]:
    for name in ("a", "b"):
        write_row(tmp_path, name, "Small")
    options = RunOptions(whats=(what,), backends=(Backend(OPENCL), Backend(INDUCTOR)), **fields)

    def stand_in(job: Mapping[str, Any], caches: Any, limits: Limits, say: Any) -> Outcome:
        return answer(job)

    rows = Selection(configs=tmp_path).rows()
    return Runner(options, tmp_path / "out", stand_in), units(rows, options)


def test_numbers(tmp_path: Path) -> None:
    runner, todo = make(tmp_path, healthy, "performance")
    records = {r.backend: r for r in runner.measure(todo[0], lambda text: None)}
    assert list(records) == ["eager", OPENCL, INDUCTOR]
    metrics = records[OPENCL].metrics
    assert metrics["speedup"] == 2.0
    assert metrics["speedup_over_inductor"] == 1.6
    assert metrics["compression_ratio"] == 1.6
    assert metrics["compilation_latency"] == pytest.approx(0.495), "of filled caches"
    assert records["eager"].metrics["speedup"] == 1.0
    runner, todo = make(tmp_path, healthy, "performance", cold_start=True)
    records = {r.backend: r for r in runner.measure(todo[0], lambda text: None)}
    assert records[OPENCL].metrics["compilation_latency"] == pytest.approx(1.995)


def test_a_backend_is_first_used_once_a_sweep(tmp_path: Path) -> None:
    seen: list[tuple[str, str, list[str]]] = []

    def stand_in(job: Mapping[str, Any], caches: Path, limits: Limits, say: Any) -> Outcome:
        if job["kind"] == "first_use":
            (caches / "from_first_use").write_text(job["backends"][0])
            return Outcome("ok")
        found = [p.read_text() for p in caches.glob("*")] if caches.exists() else []
        seen.append((job["kind"], job["backends"][0], found))
        return healthy(job)

    runner, todo = make(tmp_path, healthy, "performance")
    runner = Runner(runner.options, tmp_path / "out", stand_in)
    for unit in todo[:2]:
        runner.measure(unit, lambda text: None)
    cold = [(backend, found) for kind, backend, found in seen if kind == "cold"]
    assert cold == 2 * [("eager", []), (OPENCL, [OPENCL]), (INDUCTOR, [INDUCTOR])]


def test_one_backend_that_crashes_leaves_the_others(tmp_path: Path) -> None:
    def answer(job: Mapping[str, Any]) -> Outcome:
        if job["kind"] == "cold" and OPENCL in job["backends"]:
            return Outcome("crashed", "SIGSEGV: in a driver", [event("phase", phase="backend")])
        return healthy(job)

    runner, todo = make(tmp_path, answer, "performance")
    records = {r.backend: r for r in runner.measure(todo[0], lambda text: None)}
    assert records[OPENCL].status is Status.FAIL_TO_RUN
    assert records[OPENCL].cause == "fail_to_run: SIGSEGV: in a driver"
    assert records[INDUCTOR].metrics["speedup"] == 1.25


def test_without_eager_there_is_nothing_to_measure(tmp_path: Path) -> None:
    asked = []

    def answer(job: Mapping[str, Any]) -> Outcome:
        asked.append(job["backends"])
        return Outcome("oom", "more than 1 GiB", [event("phase", phase="eager")])

    runner, todo = make(tmp_path, answer, "performance")
    records = runner.measure(todo[0], lambda text: None)
    assert [r.status for r in records] == [Status.EAGER_OOM] * 3
    assert len(asked) == 1


def test_a_backend_that_fails_beside_the_others(tmp_path: Path) -> None:
    def answer(job: Mapping[str, Any]) -> Outcome:
        if job["kind"] != "timed":
            return healthy(job)
        failed = event("failed", backend=OPENCL, status="OOM", message="none left")
        rest = [e for e in healthy(job).events if e["backend"] != OPENCL]
        return Outcome("ok", events=[failed, *rest])

    runner, todo = make(tmp_path, answer, "performance")
    records = {r.backend: r for r in runner.measure(todo[0], lambda text: None)}
    assert (records[OPENCL].status, records[OPENCL].message) == (Status.OOM, "none left")
    assert records[INDUCTOR].status is Status.PASS


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("timeout", Status.TIMEOUT), ("oom", Status.OOM), ("crashed", Status.FAIL_TO_RUN)],
)
def test_a_process_that_ends_badly_after_its_verdict_did_not_pass(
    tmp_path: Path, outcome: str, status: Status
) -> None:
    def answer(job: Mapping[str, Any]) -> Outcome:
        events = [event("phase", phase="backend"), event("accuracy", status="pass", message="")]
        return Outcome(outcome, "SIGABRT: at exit", events)

    runner, todo = make(tmp_path, answer, "accuracy")
    assert [r.status for r in runner.measure(todo[0], lambda text: None)] == [status] * 2


@pytest.mark.parametrize(
    ("outcome", "limit"),
    [("timeout", "--timeout 7"), ("oom", "--memory-limit 1.50"), ("crashed", "")],
)
def test_what_a_limit_ended_is_repeated_with_that_limit(
    tmp_path: Path, outcome: str, limit: str
) -> None:
    limits = Limits(7.0, 3 << 29)
    answer = lambda job: Outcome(outcome, "no more")  # noqa: E731
    runner, todo = make(tmp_path, answer, "accuracy", limits=limits)
    command = runner.measure(todo[0], lambda text: None)[0].reproduce
    found = re.findall(r"--(?:timeout|memory-limit) \S+", command)
    assert found == ([limit] if limit else [])


def test_the_backends_of_a_row_share_what_they_are_compared_with(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(job: Mapping[str, Any]) -> Outcome:
        asked.append(job["references"])
        assert Path(asked[-1]).parent.is_dir()
        return healthy(job)

    runner, todo = make(tmp_path, answer, "accuracy")
    for unit in todo:
        runner.measure(unit, lambda text: None)
    assert asked[0] == asked[1] and asked[2] == asked[3] and asked[1] != asked[2]
    assert not Path(asked[0]).parent.exists()


def test_resuming(tmp_path: Path) -> None:
    runner, todo = make(tmp_path, healthy, "accuracy")
    runner.run(todo[:1], Silent(), resume=False)
    with runner.file.open("a") as file:
        file.write('{"event": "result", "na')  # a crash in the middle of a line
    watcher = Silent()
    results = runner.run(todo, watcher, resume=True)
    assert watcher.units == ["b [inference] accuracy"]
    assert [r.name for r in results.records] == ["a", "a", "b", "b"]
    assert results.environment == {"machine": "here"}
    watcher = Silent()
    runner.run(todo, watcher, resume=True)
    assert not watcher.units


def test_other_settings_are_other_results(tmp_path: Path) -> None:
    runner, todo = make(tmp_path, healthy, "accuracy")
    runner.run(todo, Silent(), resume=False)
    watcher = Silent()
    other, todo = make(tmp_path, healthy, "accuracy", dtype="amp")
    other.run(todo, watcher, resume=True)
    assert len(watcher.units) == 2
    assert len(read_results(runner.file).records) == 8


def test_a_row_that_cannot_run_says_why(tmp_path: Path) -> None:
    write_row(tmp_path, "c", "Small", status="unsupported", why={"status": "needs a robot"})
    runner, todo = make(tmp_path, healthy, "accuracy")
    last = [u for u in todo if u.row.name == "c"][-1]
    (record, _) = runner.measure(last, lambda text: None)
    assert (record.status, record.message) == (Status.UNSUPPORTED, "needs a robot")
    assert record.expected == "unsupported"


def test_records_survive_the_file(tmp_path: Path) -> None:
    runner, todo = make(tmp_path, healthy, "performance", sizes=(("R", 3),))
    records = runner.measure(todo[0], lambda text: None)
    append(tmp_path / "results.jsonl", [r.as_json() for r in records])
    assert list(read_results(tmp_path).records) == records
