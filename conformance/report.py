"""Tables of results: for a terminal, and for docs/conformance.md."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from pathlib import Path

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
    order = {name: k for k, name in enumerate((*kinds, *DIRECTIONS, *DTYPES))}
    return dict(sorted(table.items(), key=lambda x: tuple(order[name] for name in x[0])))


def cells(counter: collections.Counter[str]) -> list[str]:
    """Percentages are of the rows that eager runs; the last one leaves out the exempt ones too."""
    total = sum(counter[s] for s in (NATIVE, FALLBACK, FAIL))
    texts = [str(total)]
    for status in (NATIVE, FALLBACK, FAIL):
        share = f" ({100 * counter[status] / total:.1f} %)" if total else ""
        texts.append(f"{counter[status]}{share}")
    rest = total - counter[_EXEMPT]
    share = f" ({100 * counter[NATIVE] / rest:.1f} % of the others)" if rest else ""
    return [*texts, f"{counter[_EXEMPT]}{share}", str(counter[EAGER_FAILS])]


_HEADER = (
    "kind",
    "direction",
    "dtype",
    "rows",
    "native",
    "fallback",
    "fail",
    "exempt",
    "eager fails",
)


def summary_table(results: Iterable[Result]) -> Table:
    table = Table(title="PyTorch's lists")
    for k, name in enumerate(_HEADER):
        table.add_column(name, justify="left" if k < 3 else "right")
    for key, counter in counts(results).items():
        table.add_row(*key, *cells(counter))
    return table


def write_summary(results: Iterable[Result], page: Path) -> None:
    """Put the table between the markers of ``docs/conformance.md``."""
    begin, end = "<!-- summary:begin -->\n", "<!-- summary:end -->"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text(before + begin + markdown(results) + end + after)


def markdown(results: Iterable[Result]) -> str:
    lines = ["| " + " | ".join(_HEADER) + " |", "|---|---|---|" + "---:|" * (len(_HEADER) - 3)]
    for key, counter in counts(results).items():
        lines.append("| " + " | ".join((*key, *cells(counter))) + " |")
    return "\n".join(lines) + "\n"


def frequent_fallbacks(results: Iterable[Result]) -> list[tuple[str, int]]:
    """What runs on the host, and in how many rows, most frequent first."""
    return collections.Counter(name for r in results for name in r.fallbacks).most_common()
