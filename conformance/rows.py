"""What is checked: one row an entry of PyTorch's lists, dtype and direction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from conformance.cases import Case

#: Directions; ``step`` is that of optimisers.
FORWARD, BACKWARD, STEP = "forward", "backward", "step"
DIRECTIONS = (FORWARD, BACKWARD, STEP)

#: What names of modules and optimisers begin with; operators have their own names.
MODULE, OPTIMISER = "module", "optim"

#: Dtypes of the forward direction, by name; the backward direction is checked in float32.
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")
#: Dtypes that are checked where they are asked for, in both directions.
ON_REQUEST = ("complex64",)

#: Statuses from best to worst. ``eager_fails``: there is nothing to compare with.
NATIVE, FALLBACK, FAIL, EAGER_FAILS = "native", "fallback", "fail", "eager_fails"
RANK = {NATIVE: 0, EAGER_FAILS: 0, FALLBACK: 1, FAIL: 2}


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """An operator (its name and variant, as in PyTorch's list), module or optimiser."""

    op: str
    dtype: str
    direction: str


@dataclass(frozen=True, slots=True)
class Result:
    """How a row went: the worst status of its samples.

    ``fallbacks``: what did not run on the device, as named by the backend's counters, with the
    reason that the compiler gave.
    """

    row: Row
    status: str
    fallbacks: dict[str, str] = field(default_factory=dict)
    detail: str = ""
    samples: int = 0
    seconds: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        return fields.pop("row") | fields

    @staticmethod
    def from_json(entry: dict[str, Any]) -> Result:
        row = Row(entry["op"], entry["dtype"], entry["direction"])
        rest = {k: v for k, v in entry.items() if k not in ("op", "dtype", "direction")}
        return Result(row, **rest)


class Subject(Protocol):
    """An entry of one of PyTorch's lists."""

    def supports(self, dtype: str, direction: str) -> bool: ...

    def cases(self, row: Row) -> list[Case]: ...


def all_rows(
    subjects: Mapping[str, Subject],
    dtypes: Sequence[str] = DTYPES,
    directions: Sequence[str] = DIRECTIONS,
    only: Sequence[str] = (),
) -> Iterator[Row]:
    """Rows that eager supports on the CPU. ``only``: patterns, of which one must match a name."""
    for direction in directions:
        for dtype in dtypes:
            if direction == BACKWARD and dtype not in ("float32", *ON_REQUEST):
                continue
            for name, subject in sorted(subjects.items()):
                if only and not any(re.fullmatch(pattern, name) for pattern in only):
                    continue
                if subject.supports(dtype, direction):
                    yield Row(name, dtype, direction)
