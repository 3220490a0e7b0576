"""The batch-size search and the dispatch-overhead sweep, on made-up times."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from ocl_inductor.cli import main
from ocl_inductor.sweep.performance.overhead import PROGRAMS, SIZES, costs, crossings, explain
from ocl_inductor.sweep.run.batch import Point, search_batch_size
from ocl_inductor.sweep.status import Status


def timed(ms_of: Callable[[int], float], fits: int = 10**9) -> Callable[[int], Point]:
    def measure(size: int) -> Point:
        if size > fits:
            return Point(size, Status.OOM, message="too large")
        return Point(size, Status.PASS, ms_of(size), 10.0 * size)

    return measure


def tried(*args, **limits) -> tuple[list[int], int | None]:
    found = search_batch_size(*args, **limits)
    return [p.batch_size for p in found.points], found.best and found.best.batch_size


def test_doubling_until_memory_ends() -> None:
    sizes, best = tried(timed(lambda size: 10 + size * 0.1, fits=20))
    assert (sizes, best) == ([1, 2, 4, 8, 16, 32], 16)


def test_doubling_until_throughput_stops_growing() -> None:
    # 10 ms are enough for 8 samples; from there on time grows with the batch.
    sizes, best = tried(timed(lambda size: max(10.0, size * 1.25)))
    assert (sizes, best) == ([1, 2, 4, 8, 16, 32], 8)


def test_a_limit_and_a_model_that_does_not_run() -> None:
    assert tried(timed(lambda size: 1.0), limit=4) == ([1, 2, 4], 4)
    assert tried(timed(lambda size: 1.0, fits=0)) == ([1], None)


def overhead(fixed: float, launch: float, work: float) -> list[dict[str, object]]:
    """Programs timed on a backend with these costs, and on an eager with 5 µs an operator."""
    found: list[dict[str, object]] = []
    for program in PROGRAMS:
        launches = 1 if program.kind == "chain" else program.count
        work_us = work * program.elements * program.count
        found.append({
            "program": {
                "kind": program.kind, "count": program.count, "elements": program.elements,
            },
            "launches": {"opencl": launches},
            "microseconds": {
                "eager": 5.0 * program.count + 2 * work_us,
                "opencl": fixed + launch * (launches - 1) + work_us,
            },
        })  # fmt: skip
    return found


def test_costs_are_found() -> None:
    found = costs(overhead(fixed=40.0, launch=3.0, work=0.0), "opencl")
    assert found.fixed == pytest.approx(40.0)
    assert found.launch == pytest.approx(3.0)


def test_why_a_program_loses() -> None:
    lines = {(x.kind, x.count, x.elements): x for x in explain(overhead(40.0, 8.0, 1e-4))}
    assert lines["chain", 1, 64].reason == "the fixed cost of a call"
    assert lines["products", 64, 64].reason == "64 launches"
    assert lines["chain", 64, 262_144].reason == "", "it wins"
    for line in lines.values():
        parts = line.fixed_us + line.launch_us + line.work_us
        assert parts == pytest.approx(line.backend_us)


def test_where_it_begins_to_win() -> None:
    found = {(kind, count): size for _, kind, count, size in
             crossings(explain(overhead(40.0, 1.0, 1e-3)))}  # fmt: skip
    assert found["chain", 1] == SIZES[2]
    assert found["chain", 64] == SIZES[0]
    assert explain([]) == [] and crossings([]) == []


@pytest.mark.slow
def test_the_command() -> None:
    words = ["sweep", "overhead", "--device", "intel", "--repeat", "2", "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    lines = json.loads(result.stdout)["lines"]
    assert len(lines) == len(PROGRAMS)
    for line in lines:
        expected = 1 if line["kind"] == "chain" else line["count"]
        assert line["launches"] == expected, line
