"""What is known to be other than native, and why: ``expected.jsonl``.

Rows that are not in the file are expected to be native. A device on which some rows go otherwise
has a file of its own beside it, ``expected.<device>.jsonl``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conformance.reasons import reason_of
from conformance.rows import (
    BACKWARD,
    DTYPES,
    EAGER_FAILS,
    FAIL,
    FORWARD,
    NATIVE,
    RANK,
    STEP,
    Result,
    Row,
)

FILE = Path(__file__).with_name("expected.jsonl")
#: The same for operators that run one by one on ``ocl`` tensors (``--eager``).
EAGER_FILE = FILE.with_name("expected_eager.jsonl")


#: What the files have been written from, as (dtype, direction): float32 and bool with up to twelve
#: samples of a row, with ``--eager`` float32 forward with up to four, all else with the first and
#: the last one. Elsewhere nothing is known.
COVERED = frozenset(
    {*((dtype, FORWARD) for dtype in DTYPES), ("float32", BACKWARD), ("float32", STEP)}
)


@dataclass(frozen=True, slots=True)
class Expected:
    status: str = NATIVE
    fallbacks: tuple[str, ...] = ()
    reason: str = ""


def driver_file(device: str | None) -> Path:
    """Where a device's own expectations are; they hold only what differs from the common ones."""
    slug = re.sub(r"\W+", "_", device or "")
    return FILE.with_name(f"expected.{slug}.jsonl") if slug else FILE


def read_expected(path: Path = FILE, device: str | None = None) -> dict[Row, Expected]:
    """The common expectations, with those of ``device`` on top."""
    expected = _read(path)
    own = driver_file(device)
    return expected if own == FILE else {**expected, **_read(own)}


def _read(path: Path) -> dict[Row, Expected]:
    expected: dict[Row, Expected] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        entry: dict[str, Any] = json.loads(line)
        row = Row(entry["op"], entry["dtype"], entry["direction"])
        expected[row] = Expected(entry["status"], tuple(entry["fallbacks"]), entry["reason"])
    return expected


def write_expected(
    expected: Mapping[Row, Expected], path: Path = FILE, device: str | None = None
) -> None:
    """Sorted, so that a change is a readable diff. For a device of its own: what is different."""
    own = driver_file(device)
    if own != FILE:
        common = _read(path)
        rows = {*common, *expected}
        here = {r: (expected.get(r, Expected()), common.get(r, Expected())) for r in rows}
        expected = {r: mine for r, (mine, its) in here.items() if mine != its}
        path = own
    lines = []
    for row, e in sorted(expected.items()):
        entry = {**asdict(row), **asdict(e)}
        lines.append(json.dumps(entry) + "\n")
    if lines or path == FILE or path.exists():
        path.write_text("".join(lines))


def is_expected_to_pass(row: Row, expected: Mapping[Row, Expected]) -> bool:
    known = expected.get(row, Expected())
    return (row.dtype, row.direction) in COVERED and known.status not in (FAIL, EAGER_FAILS)


def worse(result: Result, expected: Mapping[Row, Expected]) -> str | None:
    """How a result is worse than expected, or None."""
    known = expected.get(result.row, Expected())
    if (result.row.dtype, result.row.direction) not in COVERED and result.status != FAIL:
        return None
    if RANK[result.status] > RANK[known.status]:
        what = result.detail or ", ".join(result.fallbacks)
        return f"{result.status} instead of {known.status}: {what}"
    new = sorted(set(result.fallbacks) - set(known.fallbacks))
    if new and result.status == known.status:
        return f"falls back for {', '.join(new)} as well"
    return None


def update(old: Mapping[Row, Expected], results: Iterable[Result]) -> dict[Row, Expected]:
    """The expectations that ``results`` meet exactly; other rows stay as they are."""
    new = dict(old)
    for result in results:
        new.pop(result.row, None)
        if result.status != NATIVE:
            reason = reason_of(result)
            new[result.row] = Expected(result.status, tuple(result.fallbacks), reason)
    return new
