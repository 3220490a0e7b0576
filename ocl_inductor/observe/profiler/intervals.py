"""Sets of time as sorted pairs (start, end) that do not touch."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]


def union(pairs: Iterable[Interval]) -> list[Interval]:
    """The times that lie in any of the pairs; empty ones are left out."""
    merged: list[Interval] = []
    for start, end in sorted(p for p in pairs if p[0] < p[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def clip(pairs: Iterable[Interval], start: int, end: int) -> list[Interval]:
    """The parts of the pairs that lie between ``start`` and ``end``."""
    return [(max(a, start), min(b, end)) for a, b in pairs if a < end and b > start]


def subtract(kept: list[Interval], removed: list[Interval]) -> list[Interval]:
    """The times of ``kept`` that are not in ``removed``; both as ``union`` gives them."""
    left: list[Interval] = []
    position = 0
    for start, end in kept:
        while position < len(removed) and removed[position][1] <= start:
            position += 1
        at = position
        while at < len(removed) and removed[at][0] < end:
            if removed[at][0] > start:
                left.append((start, removed[at][0]))
            start = max(start, removed[at][1])
            at += 1
        if start < end:
            left.append((start, end))
    return left


def length(pairs: Iterable[Interval]) -> int:
    """The time in pairs that do not overlap."""
    return sum(end - start for start, end in pairs)
