"""Results on disk: a line of JSON for each row, appended as rows finish."""

from __future__ import annotations

import json
from pathlib import Path

from conformance.rows import Result, Row


def read_results(path: Path) -> dict[Row, Result]:
    """The last result of each row; a line cut short by a kill is ignored."""
    results: dict[Row, Result] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                result = Result.from_json(json.loads(line))
            except json.JSONDecodeError:
                continue
            results[result.row] = result
    return results


def append_result(path: Path, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(result.to_json()) + "\n")
