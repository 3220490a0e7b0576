"""``sweep compare``: the 7 % rule, noise, statuses, new and missing models, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from records import record, results

from ocl_inductor.cli import main
from ocl_inductor.sweep.record import SweepResults, append
from ocl_inductor.sweep.report.compare import compare, confirm, markdown
from ocl_inductor.sweep.status import Status


@pytest.mark.parametrize(
    ("after_ms", "verdicts"),
    [(10.6, []), (10.8, ["regressed"]), (9.4, []), (9.2, ["improved"])],
)
def test_seven_percent(after_ms: float, verdicts: list[str]) -> None:
    found = compare(results(record(ms=10.0)), results(record(ms=after_ms)))
    assert [c.verdict for c in found.changes] == verdicts
    assert found.found_problem == ("regressed" in verdicts)


def test_a_spread_hides_what_it_explains() -> None:
    noisy = {"samples_ms": [8.0, 9.0, 11.0, 12.0], "latency_spread": 0.1}
    before, after = record(ms=10.0, metrics=noisy), record(ms=11.5, metrics=noisy)
    assert not compare(results(before), results(after)).changes
    assert compare(results(before), results(record(ms=20.0, metrics=noisy))).regressions


def test_a_slower_machine_is_no_regression() -> None:
    """Eager slowed down as much: 30 % prove nothing then, 60 % do."""
    slower = {"eager_latency": 13.0}
    before = results(record(ms=10.0))
    assert not compare(before, results(record(ms=13.0, metrics=slower))).changes
    assert compare(before, results(record(ms=16.0, metrics=slower))).regressions


def test_memory_and_compile_times() -> None:
    before = results(record(ms=10.0, metrics={"first_call_cold_s": 3.0}))
    after = results(record(ms=10.0, metrics={"host_mib": 110.0, "first_call_cold_s": 6.0}))
    assert [c.what for c in compare(before, after).regressions] == ["memory"]
    whats = {c.what for c in compare(before, after, compile_times=True).regressions}
    assert whats == {"memory", "first call, cold"}
    assert not compare(before, after, threshold=0.11).regressions
    small = record(ms=10.0, metrics={"host_mib": 1.0})
    grown = record(ms=10.0, metrics={"host_mib": 12.0})
    assert not compare(results(small), results(grown)).changes, "below the floor it is noise"


def test_statuses_new_and_missing() -> None:
    wrong = record("a", status=Status.FAIL_ACCURACY, message="out: differs by 1")
    found = compare(results(record("a"), record("b")), results(wrong, record("c")))
    (change,) = found.statuses
    assert (change.before, change.after, change.worse) == ("pass", "fail_accuracy", True)
    assert [key.split("|")[0] for key in found.missing] == ["b"]
    assert [key.split("|")[0] for key in found.new] == ["c"]
    repaired = compare(results(wrong), results(record("a")))
    assert repaired.statuses and not repaired.found_problem


def test_what_does_not_show_again_is_dismissed() -> None:
    before = results(record(ms=10.0))
    first = compare(before, results(record(ms=12.0)))
    assert not confirm(first, compare(before, results(record(ms=10.1)))).found_problem
    again = confirm(first, compare(before, results(record(ms=11.9))))
    assert [c.confirmed for c in again.regressions] == [True]
    text = markdown(confirm(first, compare(before, before)), "A", "B")
    assert "Seen once" in text and "Regressions: 0." in text


def _write(folder: Path, found: SweepResults) -> str:
    start = {"event": "start", "schema": 1, "environment": dict(found.environment)}
    append(folder / "results.jsonl", [start, *(r.as_json() for r in found.records)])
    return str(folder)


def test_the_command(tmp_path: Path) -> None:
    before = _write(tmp_path / "a", results(record(ms=10.0), commit="one"))
    after = _write(tmp_path / "b", results(record(ms=20.0), commit="two"))
    files = [str(tmp_path / "c.yaml"), str(tmp_path / "c.md")]
    run = CliRunner().invoke
    result = run(
        main, ["sweep", "compare", before, after, "--yaml", files[0], "--markdown", files[1]]
    )
    assert result.exit_code == 1
    assert "| model [inference] | opencl:device=intel | time | 10 ms | 20 ms | +100.0% |" in (
        result.output
    )
    assert "| commit | one | two |" in result.output
    assert Path(files[1]).read_text().strip() == result.output.strip()
    (regression,) = yaml.safe_load(Path(files[0]).read_text())["regressions"]
    assert (regression["model"], regression["growth"]) == ("model [inference]", 1.0)
    same = run(main, ["sweep", "compare", before, before, "--json"])
    assert same.exit_code == 0
    assert json.loads(same.output)["problem"] is False
    missing = run(main, ["sweep", "compare", before, str(tmp_path / "nothing")])
    assert missing.exit_code == 2


@pytest.mark.parametrize("text", ["no json\n{}\n", '{"a": 1}\n', '{"event": "x", "schema": 99}\n'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(text)
    result = CliRunner().invoke(main, ["sweep", "compare", str(file), str(file)])
    assert (result.exit_code, "line 1" in result.output or "schema" in result.output) == (2, True)
