"""Tables of results: for a terminal, and for docs/conformance.md."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.table import Table

from conformance.reasons import is_exempt
from conformance.rows import (
    DIRECTIONS,
    DTYPES,
    EAGER_FAILS,
    FAIL,
    FALLBACK,
    MODULE,
    NATIVE,
    ON_REQUEST,
    OPTIMISER,
    Result,
)

_KINDS = {MODULE: "modules", OPTIMISER: "optimisers"}

#: Counted beside the statuses: fallbacks of which each is allowed.
_EXEMPT = "exempt"


def counts(results: Iterable[Result]) -> dict[tuple[str, str, str], collections.Counter[str]]:
    """How many rows of each kind, direction and dtype have each status."""
    table: dict[tuple[str, str, str], collections.Counter[str]] = {}
    for r in results:
        kind = _KINDS.get(r.row.op.split(".")[0], "operators")
        counter = table.setdefault((kind, r.row.direction, r.row.dtype), collections.Counter())
        counter[r.status] += 1
        counter[_EXEMPT] += is_exempt(r)
    kinds = ("operators", *_KINDS.values())
    order = {name: k for k, name in enumerate((*kinds, *DIRECTIONS, *DTYPES, *ON_REQUEST))}
    return dict(sorted(table.items(), key=lambda x: tuple(order[name] for name in x[0])))


_HEADER = ("what", "rows", "native", "host", "fail", "%", "exempt", "% rest", "eager")


def cells(counter: collections.Counter[str]) -> list[str]:
    """Percentages are of the rows that eager runs; the second leaves out the exempt ones too."""
    total = sum(counter[s] for s in (NATIVE, FALLBACK, FAIL))
    exempt = counter[_EXEMPT]
    return [
        str(total),
        *(str(counter[s]) for s in (NATIVE, FALLBACK, FAIL)),
        _percent(counter[NATIVE], total),
        str(exempt),
        _percent(counter[NATIVE], total - exempt),
        str(counter[EAGER_FAILS]),
    ]


def _percent(part: int, total: int) -> str:
    return f"{100 * part / total:.1f}" if total else ""


def summary_table(results: Iterable[Result]) -> Table:
    table = Table(title="PyTorch's lists", box=box.SIMPLE, padding=(0, 0, 0, 0), pad_edge=False)
    for k, name in enumerate(_HEADER):
        table.add_column(name, justify="right" if k else "left", no_wrap=not k)
    for key, counter in counts(results).items():
        table.add_row(" ".join(key), *cells(counter))
    return table


def write_summary(results: Iterable[Result], page: Path, section: str = "summary") -> None:
    """Put the table between the markers of a section of ``docs/conformance.md``."""
    begin, end = f"<!-- {section}:begin -->\n", f"<!-- {section}:end -->"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text(before + begin + markdown(results) + end + after)


def markdown(results: Iterable[Result]) -> str:
    lines = ["| " + " | ".join(_HEADER) + " |", "|---|" + "---:|" * (len(_HEADER) - 1)]
    for key, counter in counts(results).items():
        lines.append("| " + " | ".join((" ".join(key), *cells(counter))) + " |")
    return "\n".join(lines) + "\n"


def frequent_fallbacks(results: Iterable[Result]) -> list[tuple[str, int]]:
    """What runs on the host, and in how many rows, most frequent first."""
    return collections.Counter(name for r in results for name in r.fallbacks).most_common()
