"""The numbers that charts show, read from the JSON lines below ``docs/results``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sweep:
    """The performance of one mode of the sweep, each row by backend."""

    folder: str
    mode: str
    rows: Mapping[str, Mapping[str, Record]]
    machines: str

    def pairs(self, metric: str) -> list[tuple[str, float, float]]:
        """(row, Inductor's, ours) of the rows that have both."""
        found = []
        for name, by_backend in self.rows.items():
            values = [by_backend.get(backend, {}).get(metric) for backend in ("inductor", "opencl")]
            if all(value is not None for value in values):
                found.append((name, *map(float, values)))
        return found


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_sweep(results: Path, folder: str, mode: str) -> Sweep:
    rows: dict[str, dict[str, Record]] = {}
    seen: set[tuple[str, str]] = set()
    for line in read_lines(results / folder / "results.jsonl"):
        if line["event"] == "start":
            seen.add((line["environment"]["cpu"]["model"], line["started"][:10]))
        elif line["what"] == "performance" and line["status"] == "pass" and line["mode"] == mode:
            backend = line["backend"].partition(":")[0]
            rows.setdefault(line["name"], {})[backend] = line["metrics"]
    machines = ", ".join(f"{model} ({date})" for model, date in sorted(seen))
    return Sweep(folder, mode, rows, f"two cores of, by row, {machines}; Intel's driver")


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))
