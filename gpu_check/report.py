"""The record as tables for docs/gpu.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from gpu_check.figures import Figures
from gpu_check.ratchet import Ratchet

Rows = dict[str, Figures]


def tables(record: Ratchet) -> str:
    """By device and family; then each case that is not as it should be."""
    return "\n".join([*_families(record), *_bad(record)])


def _families(record: Ratchet) -> Iterator[str]:
    yield (
        "| device | cases | kernels | failures | spilled | private | occupancy | FMA | wide loads "
        "| starved | strided |"
    )
    yield "|" + "---|" * 11
    for device, compiler in record.compilers.items():
        yield f"| **{device}** ({compiler}) |" + " |" * 10
        groups: dict[str, list[Figures]] = defaultdict(list)
        for (d, case), figures in record.rows.items():
            if d == device:
                groups[record.families[case]].append(figures)
        for family, rows in groups.items():
            compiled = any(f.occupancy for f in rows)
            yield _row(
                [
                    family,
                    len(rows),
                    sum(f.kernels for f in rows),
                    sum(f.failures for f in rows),
                    sum(f.spilled for f in rows) if compiled else "",
                    sum(f.private for f in rows),
                    _range(f.occupancy for f in rows) if compiled else "",
                    _range(f.fma for f in rows if f.fma is not None),
                    _range(f.wide for f in rows if f.wide is not None),
                    sum(f.starved for f in rows),
                    sum(f.strided for f in rows),
                ]
            )


def _bad(record: Ratchet) -> Iterator[str]:
    """One line a figure: the cases, each with the devices where it is not 0."""
    yield ""
    yield "| not as it should be | cases |"
    yield "|---|---|"
    for name, what in (
        ("failures", "refused, or on the host"),
        ("spilled", "registers in memory"),
        ("private", "private memory, bytes"),
        ("starved", "starved launches"),
        ("strided", "strided buffers"),
    ):
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for (device, case), figures in record.rows.items():
            value = getattr(figures, name)
            if value:
                found[case][device] = value
        yield _row([what, "; ".join(_where(c, by, record) for c, by in found.items()) or "none"])


def _where(case: str, by: dict[str, int], record: Ratchet) -> str:
    values = set(by.values())
    if len(by) == len(record.compilers) and len(values) == 1:
        return f"{case} {values.pop()}"
    return f"{case} " + ", ".join(f"{value} ({device})" for device, value in by.items())


def _range(values: Iterable[int]) -> str:
    """Least and most, in percent."""
    known: Sequence[int] = sorted(values)
    if not known:
        return ""
    return f"{known[0]}%" if known[0] == known[-1] else f"{known[0]}–{known[-1]}%"


def _row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"
