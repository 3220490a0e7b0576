"""One result of a sweep: what became of one model, in one mode, with one backend."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ocl_inductor.errors import OpenCLInductorError
from ocl_inductor.sweep.process.job import Mode, What
from ocl_inductor.sweep.status import Status

SCHEMA = 1
FILE_NAME = "results.jsonl"


class BadResultsError(OpenCLInductorError):
    """A file of results that cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path}: {reason}. Results are the {FILE_NAME} that `ocl-inductor sweep run` writes; "
            "name that file or its folder.",
            path=str(path),
        )


@dataclass(frozen=True, slots=True)
class Record:
    """A line of ``results.jsonl``.

    Attributes:
        backend: as ``Backend.parse`` reads it.
        cause: what failures are grouped by: the message without the numbers of one run.
        expected: the status the model's row announces.
        metrics: numbers by name; see ``docs/sweep.md``.
        reproduce: the command that repeats this result alone.
        log: the end of the process's standard error, where it failed.
    """

    name: str
    domain: str
    mode: Mode
    what: What
    backend: str
    dtype: str
    batch_size: int
    status: Status
    message: str = ""
    cause: str = ""
    expected: str = "pass"
    why: str = ""
    dynamic: bool = False
    sizes: tuple[tuple[str, int], ...] = ()
    wall_s: float = 0.0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    reproduce: str = ""
    log: str = ""

    @property
    def key(self) -> str:
        """Names the measurement: equal keys of two sweeps are compared, and not run again."""
        sizes = ",".join(f"{k}={v}" for k, v in self.sizes)
        shapes = "dynamic" if self.dynamic else "static"
        parts = (self.name, self.mode, self.what, self.backend, self.dtype, shapes)
        return "|".join((*parts, f"B={self.batch_size}", *([sizes] if sizes else [])))

    @property
    def title(self) -> str:
        """The model and its mode, for tables."""
        sizes = "".join(f" {k}={v}" for k, v in self.sizes)
        return f"{self.name} [{self.mode}]{sizes}"

    def metric(self, name: str) -> float | None:
        value = self.metrics.get(name)
        return float(value) if isinstance(value, int | float) else None

    def as_json(self) -> dict[str, object]:
        value = dataclasses.asdict(self)
        value["status"] = str(self.status)
        return {"event": "result", "schema": SCHEMA, "key": self.key, **value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Record:
        known = {f.name for f in dataclasses.fields(cls)}
        fields = {k: v for k, v in value.items() if k in known}
        fields["status"] = Status(fields["status"])
        fields["sizes"] = tuple((str(k), int(v)) for k, v in fields.get("sizes", ()))
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class SweepResults:
    """Everything a sweep wrote: the machine it ran on, and the latest record of each key."""

    environment: Mapping[str, Any]
    settings: Mapping[str, Any]
    records: tuple[Record, ...]
    path: Path | None = None

    def by_key(self) -> dict[str, Record]:
        return {record.key: record for record in self.records}


def read_results(path: Path) -> SweepResults:
    """The results in a file or folder. A last line that a crash cut off is left out.

    Raises:
        BadResultsError: there is no such file, or it is something else.
    """
    file = path / FILE_NAME if path.is_dir() else path
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise BadResultsError(file, f"cannot be read ({reason})") from error
    environment: dict[str, object] = {}
    settings: dict[str, object] = {}
    records: dict[str, Record] = {}
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):
                break
            raise BadResultsError(file, f"line {number} is not JSON") from error
        if not isinstance(value, dict) or "event" not in value:
            raise BadResultsError(file, f"line {number} is no event of a sweep")
        if value.get("schema", SCHEMA) != SCHEMA:
            raise BadResultsError(file, f"schema {value['schema']}, this version reads {SCHEMA}")
        if value["event"] == "start":
            environment = value.get("environment") or environment
            settings = value.get("settings") or settings
        elif value["event"] == "result":
            try:
                record = Record.from_json(value)
            except (KeyError, TypeError, ValueError) as error:
                raise BadResultsError(file, f"line {number}: {error}") from error
            records.pop(record.key, None)  # a later result takes its place, at the end
            records[record.key] = record
    return SweepResults(environment, settings, tuple(records.values()), file)


def append(path: Path, events: Iterable[Mapping[str, object]]) -> None:
    """Add lines to a file of results, on the disk when this returns.

    A line that a crash cut off before is ended first, so that it spoils no other.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = _end_of_whole_lines(path)
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(cut)
        file.truncate()
        for event in events:
            file.write(json.dumps(event, sort_keys=False).encode() + b"\n")
        file.flush()


def _end_of_whole_lines(path: Path) -> int:
    """Where the last complete line ends; 0 for a file that is not there."""
    if not path.exists():
        return 0
    return path.read_bytes().rfind(b"\n") + 1
