"""How much of all families is right, from the records of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ocl_inductor.sweep.record import Record
from ocl_inductor.sweep.status import Status

LIBRARIES = ("transformers", "timm")
#: The model was not built, or eager did not give a result to compare with: the backend was not run.
NOT_COUNTED = {
    Status.MODEL_FAIL_TO_LOAD,
    Status.EAGER_FAIL_TO_RUN,
    Status.EAGER_OOM,
    Status.EAGER_TWO_RUNS_DIFFER,
    Status.UNSUPPORTED,
}


def is_family(record: Record) -> bool:
    """Whether a record is of a family, and of no row."""
    return record.domain in LIBRARIES and record.name.startswith(f"{record.domain}/")


def is_counted(record: Record) -> bool:
    """Whether a record says anything of the backend."""
    return record.status not in NOT_COUNTED


@dataclass(frozen=True, slots=True)
class Coverage:
    """The records of one library, by what came out.

    Attributes:
        right: agree with eager or float64, every operator on the device.
        on_host: agree, with operators on the host.
        wrong: do not agree, or did not run.
        not_counted: eager has no result.
    """

    library: str
    right: tuple[Record, ...]
    on_host: tuple[Record, ...]
    wrong: tuple[Record, ...]
    not_counted: tuple[Record, ...]

    @classmethod
    def of(cls, library: str, records: Iterable[Record]) -> Coverage:
        parts: tuple[list[Record], ...] = ([], [], [], [])
        for record in records:
            if record.domain != library:
                continue
            if not is_counted(record):
                parts[3].append(record)
            elif not record.status.good:
                parts[2].append(record)
            else:
                parts[1 if record.metrics.get("fallbacks") else 0].append(record)
        return cls(library, *(tuple(part) for part in parts))

    @property
    def counted(self) -> int:
        return len(self.right) + len(self.on_host) + len(self.wrong)

    @property
    def share(self) -> float | None:
        """Of those that count, the right ones without the host; None where none counts."""
        return len(self.right) / self.counted if self.counted else None


def coverages(records: Iterable[Record]) -> list[Coverage]:
    """One of each library that has records."""
    found = [record for record in records if is_family(record)]
    return [
        Coverage.of(library, found)
        for library in LIBRARIES
        if any(record.domain == library for record in found)
    ]


def coverage_lines(records: Iterable[Record]) -> Iterator[str]:
    """What the command says at the end: a line a library, and a line for what is on the host."""
    for one in coverages(records):
        share = "" if one.share is None else f" ({one.share:.1%})"
        yield (
            f"{one.library}: {len(one.right)} of {one.counted} right without the host{share}, "
            f"{len(one.on_host)} right with it, {len(one.wrong)} wrong or not run, "
            f"{len(one.not_counted)} not counted as eager has no result"
        )
        for record in one.on_host:
            yield f"  {record.name}: on the host {', '.join(record.metrics['fallback_operators'])}"
