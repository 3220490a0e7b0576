"""Check one row: run each of its samples in a mode, and compare with eager on the CPU."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch._dynamo.utils import counters

from conformance.cases import Case, Way
from conformance.compare import problem
from conformance.rows import EAGER_FAILS, FAIL, FALLBACK, NATIVE, RANK, Result, Row, Subject

#: Distinct messages of failing samples that a result keeps.
MESSAGES = 3
#: Under so many seeds a random operator's numbers must agree in eager for ours to be compared: a
#: single toss of a coin often gives the same twice.
SEEDS = 12


@dataclass(frozen=True, slots=True)
class Limits:
    """At most ``samples`` of a row, and no further one after ``seconds`` of the CPU's time."""

    samples: int | None = None
    seconds: float = 30.0


class Mode(Protocol):
    """How samples are run: compiled, or operator by operator on ``ocl``."""

    def results(self, op: str, case: Case, seed: int) -> Any:
        """Of one sample; raises whatever the sample does."""
        ...

    def on_host(self) -> dict[str, str]:
        """What the last sample ran on the host, with the reasons."""
        ...


class _EagerFails(Exception):
    """Eager itself raises for this sample."""


def check_row(row: Row, subject: Subject, mode: Mode, limits: Limits) -> Result:
    """Never raises for what an operator does; a crash of the process is the caller's matter."""
    start = time.process_time()
    # Not hash(): it differs from process to process.
    seed = zlib.crc32(f"{row.op} {row.dtype} {row.direction}".encode())
    torch.manual_seed(seed)
    try:
        cases = subject.cases(row)
    except Exception as e:
        return Result(row, EAGER_FAILS, detail=f"no samples: {_line(e)}")
    status, count = EAGER_FAILS, 0
    fallbacks: dict[str, str] = {}
    details: list[str] = []
    for k in spread(len(cases), limits.samples):
        if count and time.process_time() - start > limits.seconds:
            break
        try:
            wrong, found = _check_case(row.op, cases[k], mode, seed + k)
        except _EagerFails as e:
            details = details or [str(e)]
            continue
        count += 1
        fallbacks |= found
        now = FAIL if wrong else FALLBACK if found else NATIVE
        if status == EAGER_FAILS:
            status, details = now, []
        elif RANK[now] > RANK[status]:
            status = now
        if wrong and len(details) < MESSAGES:
            details.append(f"sample {k}: {wrong}")
    detail = "; ".join(details)
    seconds = round(time.process_time() - start, 2)
    return Result(row, status, dict(sorted(fallbacks.items())), detail, count, seconds)


def spread(total: int, wanted: int | None) -> Sequence[int]:
    """``wanted`` positions out of ``total``, as far apart as they can be."""
    if wanted is None or total <= wanted:
        return range(total)
    return sorted({k * (total - 1) // max(1, wanted - 1) for k in range(wanted)})


def _check_case(op: str, case: Case, mode: Mode, seed: int) -> tuple[str | None, dict[str, str]]:
    """What is wrong, if anything, and what did not run on the device."""
    try:
        eager = case.results(Way(), seed)
    except Exception as e:
        raise _EagerFails(_line(e)) from e
    values = case.values
    if values and case.random:
        others = (case.results(Way(), seed + k) for k in range(1, SEEDS))
        values = all(problem(other, eager, None) is None for other in others)
    exact = None
    if values:
        with suppress(Exception):  # not everything goes along in float64
            exact = case.results(Way(wide=True), seed)
    counters.clear()
    try:
        actual = mode.results(op, case, seed)
    except Exception as e:
        return _raised(e), mode.on_host()
    return problem(actual, eager, exact, values=values), mode.on_host()


def _raised(e: BaseException) -> str:
    line = _line(e)
    return line if line.startswith(type(e).__name__) else f"{type(e).__name__}: {line}"


def _line(e: BaseException) -> str:
    """The first line of a message that says something, without Dynamo's wrapping."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("backend=")]
    return lines[0][:300] if lines else type(e).__name__
