"""Tables of results: for a terminal, and for docs/conformance.md."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from pathlib import Path

from rich.table import Table

from conformance.rows import DTYPES, EAGER_FAILS, FAIL, FALLBACK, NATIVE, Result

_COLUMNS = (NATIVE, FALLBACK, FAIL, EAGER_FAILS)


def counts(results: Iterable[Result]) -> dict[tuple[str, str], collections.Counter[str]]:
    """How many rows of each direction and dtype have each status."""
    table: dict[tuple[str, str], collections.Counter[str]] = {}
    for r in results:
        table.setdefault((r.row.direction, r.row.dtype), collections.Counter())[r.status] += 1
    order = {d: k for k, d in enumerate(DTYPES)}
    return dict(sorted(table.items(), key=lambda x: (x[0][0] != "forward", order[x[0][1]])))


def cells(counter: collections.Counter[str]) -> list[str]:
    """Percentages are of the rows that eager runs."""
    total = sum(counter.values()) - counter[EAGER_FAILS]
    texts = [str(total)]
    for status in (NATIVE, FALLBACK, FAIL):
        share = f" ({100 * counter[status] / total:.1f} %)" if total else ""
        texts.append(f"{counter[status]}{share}")
    return [*texts, str(counter[EAGER_FAILS])]


_HEADER = ("direction", "dtype", "operators", "native", "fallback", "fail", "eager fails")


def summary_table(results: Iterable[Result]) -> Table:
    table = Table(title="Operators of PyTorch's list")
    for k, name in enumerate(_HEADER):
        table.add_column(name, justify="left" if k < 2 else "right")
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
    lines = ["| " + " | ".join(_HEADER) + " |", "|---|---|" + "---:|" * (len(_HEADER) - 2)]
    for key, counter in counts(results).items():
        lines.append("| " + " | ".join((*key, *cells(counter))) + " |")
    return "\n".join(lines) + "\n"


def frequent_fallbacks(results: Iterable[Result]) -> list[tuple[str, int]]:
    """What runs on the host, and in how many rows, most frequent first."""
    return collections.Counter(name for r in results for name in r.fallbacks).most_common()
