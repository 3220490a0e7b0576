"""The harness of ``make conformance``: what counts as wrong, and what a crash does."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import torch

from conformance.cases import copied
from conformance.check import spread
from conformance.compare import problem
from conformance.expectations import (
    EAGER_FILE,
    FILE,
    Expected,
    read_expected,
    update,
    worse,
    write_expected,
)
from conformance.pool import run_rows
from conformance.results import append_result, read_results
from conformance.rows import FAIL, FALLBACK, NATIVE, Result, Row

ROW = Row("sin", "float32", "forward")


def test_equal_results_are_right() -> None:
    x = torch.randn(5)
    exact = x.double()
    assert problem((x, [x.int()]), (x.clone(), [x.int()]), (exact, [x.int()])) is None
    assert problem(torch.tensor(torch.nan), torch.tensor(torch.nan), None) is None


@pytest.mark.parametrize(
    "wrong",
    [
        torch.tensor([1.0, 2.0, 3.001]),
        torch.tensor([1.0, 2.0, torch.nan]),
        torch.tensor([1.0, 2.0, torch.inf]),
        torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64),
        torch.tensor([[1.0, 2.0, 3.0]]),
        [1.0, 2.0, 3.0],
    ],
)
def test_wrong_results_are_found(wrong: object) -> None:
    right = torch.tensor([1.0, 2.0, 3.0])
    assert problem(wrong, right, None) is not None
    assert problem(wrong, right, right.double()) is not None


def test_a_result_may_not_be_much_further_from_float64_than_eagers() -> None:
    exact = torch.linspace(1, 2, 9, dtype=torch.float64)
    eager = exact.float()
    assert problem(eager * (1 + 5e-7), eager, exact) is None
    assert "from float64" in str(problem(eager * (1 + 5e-6), eager, exact))


def test_a_zero_that_eager_misses_may_be_missed_by_as_much() -> None:
    exact, eager = torch.zeros(4, dtype=torch.float64), torch.tensor([0.0, 3e-6, -1e-6, 0.0])
    assert problem(eager.flip(0), eager, exact) is None
    assert problem(eager.flip(0) * 2, eager, exact) is not None
    assert problem(eager.flip(0), eager, exact + torch.tensor([0, 0, 0, 1.0])) is not None


def test_integers_must_be_equal() -> None:
    assert problem(torch.tensor([1, 2]), torch.tensor([1, 3]), None) == "1 of 2 elements differ"
    assert problem(torch.tensor([1, 2]), torch.tensor([1, 3]), None, values=False) is None


def test_copies_keep_layout() -> None:
    x = torch.arange(24.0)[3:].view(3, 7)[:, ::2]
    (y,) = copied([x])
    assert y.stride() == x.stride() and y.storage_offset() == 3 and torch.equal(x, y)
    assert y.data_ptr() != x.data_ptr()


def test_copies_on_another_device() -> None:
    x = torch.arange(24.0)[3:].view(3, 7)[:, ::2]
    found = copied({"x": x, "device": "cpu", "other": torch.device("cpu"), "mode": "mean"}, "meta")
    y = found.pop("x")
    assert (y.device.type, y.stride(), y.storage_offset()) == ("meta", x.stride(), 3)
    device = torch.device("meta")
    assert found == {"device": device, "other": device, "mode": "mean"}


def test_samples_are_spread() -> None:
    assert list(spread(3, 5)) == [0, 1, 2]
    assert list(spread(101, 3)) == [0, 50, 100]
    assert list(spread(100, 1)) == [0]


def test_a_crash_or_a_hang_costs_one_row() -> None:
    def check(row: Row) -> Result:
        if row.op == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if row.op == "hang":
            time.sleep(60)
        return Result(row, NATIVE)

    rows = [Row(op, "float32", "forward") for op in ("a", "crash", "b", "hang", "c", "d")]
    results = list(run_rows(rows, check, chunk=4, seconds=2.0))
    assert [r.row for r in results] == rows
    assert [r.status for r in results] == [NATIVE, FAIL, NATIVE, FAIL, NATIVE, NATIVE]
    assert "SIGKILL" in results[1].detail and "hang" in results[3].detail


def test_results_survive_a_line_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    result = Result(ROW, FALLBACK, {"aten.sort": "no"}, "", 3, 0.5)
    append_result(path, result)
    with path.open("a") as file:
        file.write('{"op": "co')
    assert read_results(path) == {ROW: result}


def test_what_is_worse_than_expected() -> None:
    host = {"aten.sort.default": "no lowering for this operator"}
    expected = {ROW: Expected(FALLBACK, ("aten.sort.default",), "needs sorting")}
    assert worse(Result(ROW, NATIVE), {}) is None
    assert worse(Result(ROW, FALLBACK, host), {}) is not None
    assert worse(Result(ROW, FALLBACK, host), expected) is None
    assert worse(Result(ROW, NATIVE), expected) is None
    assert worse(Result(ROW, FALLBACK, host | {"aten.mm.default": ""}), expected) is not None
    assert worse(Result(ROW, FAIL, detail="wrong"), expected) is not None
    unknown = Row("sin", "float64", "backward")
    assert worse(Result(unknown, FALLBACK, host), {}) is None
    assert worse(Result(unknown, FAIL, detail="wrong"), {}) is not None


def test_expectations_are_what_was_found(tmp_path: Path) -> None:
    host = {"aten.sort.default": "no lowering for this operator"}
    new = update({}, [Result(ROW, FALLBACK, host), Result(Row("cos", "bool", "forward"), NATIVE)])
    assert new == {ROW: Expected(FALLBACK, ("aten.sort.default",), "needs sorting")}
    write_expected(new, tmp_path / "expected.jsonl")
    assert read_expected(tmp_path / "expected.jsonl") == new
    assert update(new, [Result(ROW, NATIVE)]) == {}


@pytest.mark.parametrize("path", [FILE, EAGER_FILE])
def test_each_expectation_has_a_reason(path: Path) -> None:
    expected = read_expected(path)
    assert list(expected) == sorted(expected)
    assert [row for row, e in expected.items() if not e.reason or e.status == NATIVE] == []
