"""Check one row: compile each of its samples, run it, and compare."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.utils import counters

from conformance.cases import Case
from conformance.compare import problem
from conformance.fallbacks import FallbackLog
from conformance.rows import EAGER_FAILS, FAIL, FALLBACK, NATIVE, RANK, Result, Row, Subject
from tests.device.agreement import poisoned_memory

#: Operators with a size or a number that depends on data, for which PyTorch is told to keep the
#: call in the graph; by default Dynamo leaves the graph there. (With the settings on, Dynamo
#: itself fails for ``combinations``, and promises too few results of a masked_select that
#: broadcasts.)
_CAPTURED = frozenset(
    {
        "argwhere",
        "item",
        "nn.functional.gaussian_nll_loss",
        "nonzero",
        "unique",
        "unique_consecutive",
    }
)

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


class _EagerFails(Exception):
    """Eager itself raises for this sample."""


def check_row(
    row: Row, subject: Subject, device: str | None, limits: Limits, log: FallbackLog
) -> Result:
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
            wrong, found = _check_case(row.op, cases[k], device, seed + k, log)
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


def _check_case(
    op: str, case: Case, device: str | None, seed: int, log: FallbackLog
) -> tuple[str | None, dict[str, str]]:
    """What is wrong, if anything, and what did not run on the device."""
    try:
        eager = case.results(lambda f: f, seed, False)
    except Exception as e:
        raise _EagerFails(_line(e)) from e
    values = case.values
    if values and case.random:
        others = (case.results(lambda f: f, seed + k, False) for k in range(1, SEEDS))
        values = all(problem(other, eager, None) is None for other in others)
    exact = None
    if values:
        with suppress(Exception):  # not everything goes along in float64
            exact = case.results(lambda f: f, seed, True)
    torch._dynamo.reset()
    counters.clear()
    log.reasons.clear()

    def wrap(f: Any) -> Any:
        return torch.compile(f, backend="opencl", dynamic=False, options=_options(device))

    try:
        with poisoned_memory(), torch._dynamo.config.patch(_captured(op)):
            actual = case.results(wrap, seed, False)
    except Exception as e:
        return _raised(e), log.found()
    return problem(actual, eager, exact, values=values), log.found()


def _options(device: str | None) -> dict[str, Any]:
    return {"verify": True} | ({"device": device} if device else {})


def _captured(op: str) -> dict[str, bool]:
    """What Dynamo keeps in the graph. Without the first it leaves recurrent modules alone."""
    sizes = op in _CAPTURED
    return {
        "allow_rnn": True,
        "capture_dynamic_output_shape_ops": sizes,
        "capture_scalar_outputs": sizes,
    }


def _raised(e: BaseException) -> str:
    line = _line(e)
    return line if line.startswith(type(e).__name__) else f"{type(e).__name__}: {line}"


def _line(e: BaseException) -> str:
    """The first line of a message that says something, without Dynamo's wrapping."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("backend=")]
    return lines[0][:300] if lines else type(e).__name__
