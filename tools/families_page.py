"""Write ``docs/families.md`` anew: ``python tools/families_page.py [RESULTS]``.

``RESULTS`` is a ``results.jsonl`` of ``ocl-inductor sweep run --families``; its results replace
those of the same families in ``docs/results/families.jsonl``, without logs. Without it, the page is
made from the file as it is. The tables say how many families of each library are right without the
host, what is wrong or on the host, which graphs break, and what eager cannot run here.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ocl_inductor.sweep.families.coverage import Coverage, coverages, is_counted, is_family
from ocl_inductor.sweep.record import Record, SweepResults, read_results

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "families.md"
LINES = ROOT / "docs" / "results" / "families.jsonl"
_LONGEST = 150


def merged(old: SweepResults | None, new: SweepResults) -> str:
    """One file of both, the machine's description first, families in alphabetical order."""
    records = {**(old.by_key() if old is not None else {}), **new.by_key()}
    environment = {
        k: v for k, v in new.environment.items() if k in ("python", "cpu", "packages", "system")
    }
    if isinstance(cpu := environment.get("cpu"), dict):
        environment["cpu"] = {k: v for k, v in cpu.items() if k in ("machine", "model")}
    start = {"event": "start", "schema": 1, "environment": environment, "settings": new.settings}
    kept = sorted((r for r in records.values() if is_family(r)), key=lambda r: r.key)
    lines = [start, *(dataclasses.replace(r, log="").as_json() for r in kept)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def rendered(records: Iterable[Record]) -> str:
    """The tables, in Markdown."""
    found = sorted((r for r in records if is_family(r)), key=lambda r: r.name)
    return "\n".join(_lines(found))


def _lines(records: list[Record]) -> Iterator[str]:
    parts = coverages(records)
    yield (
        "| library | run | right without the host | right with it | wrong or not run | "
        "eager has no result |"
    )
    yield "|---|---|---|---|---|---|"
    for one in parts:
        yield (
            f"| {one.library} | {one.counted} | {len(one.right)} ({_percent(one)}) | "
            f"{len(one.on_host)} | {len(one.wrong)} | {len(one.not_counted)} |"
        )
    yield ""
    yield from _section(
        "Wrong, or not run",
        ["family", "status", "reason"],
        [[r.name, str(r.status), r.message] for one in parts for r in one.wrong],
    )
    yield from _section(
        "On the host",
        ["family", "operators"],
        [
            [r.name, ", ".join(f"`{name}`" for name in r.metrics["fallback_operators"])]
            for one in parts
            for r in one.on_host
        ],
    )
    yield from _section(
        "Other numbers when Dynamo traces it",
        ["family", "against eager"],
        [
            [r.name, str(r.metrics["traced_otherwise"])]
            for one in parts
            for r in (*one.right, *one.on_host)
            if r.metrics.get("traced_otherwise")
        ],
    )
    broken = [r for r in records if is_counted(r) and r.metrics.get("graph_breaks")]
    yield from _section(
        "Graphs that Dynamo breaks",
        ["family", "breaks", "the first reason"],
        [
            [r.name, str(r.metrics["graph_breaks"]), (r.metrics["graph_break_reasons"] or [""])[0]]
            for r in broken
        ],
    )
    yield from _section(
        "Without a result of eager",
        ["family", "reason"],
        [[r.name, _without_advice(r.message)] for one in parts for r in one.not_counted],
    )
    right = Counter(r.domain for one in parts for r in one.right)
    yield f"### Right without the host ({sum(right.values())})"
    yield ""
    yield "| family | what was run | kernels | launches | rmse, of eager's |"
    yield "|---|---|---|---|---|"
    for one in parts:
        for record in one.right:
            ratio = record.metric("rmse_ratio")
            yield _row(
                [
                    record.name,
                    str(record.metrics.get("built", "")),
                    str(record.metrics.get("kernels", "")),
                    str(record.metrics.get("launches", "")),
                    "–" if ratio is None else f"{ratio:.2f}",
                ]
            )


def _percent(one: Coverage) -> str:
    return "–" if one.share is None else f"{one.share:.1%}"


def _section(title: str, heads: list[str], rows: list[list[str]]) -> Iterator[str]:
    if not rows:
        return
    yield f"### {title} ({len(rows)})"
    yield ""
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield _row(row)
    yield ""


def _row(cells: list[str]) -> str:
    short = [cell if len(cell) <= _LONGEST else cell[: _LONGEST - 1] + "…" for cell in cells]
    escaped = [re.sub(r"([|<>*_\[\]~])", r"\\\1", c) if "`" not in c else c for c in short]
    return "| " + " | ".join(escaped) + " |"


def _without_advice(message: str) -> str:
    """A message of a model that did not load, without what is the same in all."""
    text = re.sub(r"^ModelLoadError: \S+: cannot load ", "", message)
    return re.sub(r"\. `pip install .*$", "", text)


def renewed(page: str, results: SweepResults) -> str:
    """The page with its generated part from ``results``."""
    pattern = r"(<!-- families:begin -->\n).*?(<!-- families:end -->)"
    text = rendered(results.records)
    return re.sub(pattern, lambda m: f"{m[1]}{text}\n{m[2]}", page, flags=re.S)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", nargs="?", type=Path)
    given = parser.parse_args()
    if given.results is not None:
        old = read_results(LINES) if LINES.exists() else None
        LINES.write_text(merged(old, read_results(given.results)))
    PAGE.write_text(renewed(PAGE.read_text(), read_results(LINES)))


if __name__ == "__main__":
    main()
