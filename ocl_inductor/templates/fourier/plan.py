"""How a work-group shares out the transforms of its rows.

A row of n points goes through stages, one a factor (radix) of n: n / radix butterflies, of whose
points each work-item has some in registers, and between stages the row is exchanged through local
memory in Stockham's order, which needs no permutation at the end (C. Van Loan, "Computational
Frameworks for the Fast Fourier Transform", 1.7).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.templates.fourier.butterflies import PRIMES

#: Points of the largest butterfly: it has two registers for each, and some more.
MOST_RADIX = 20
#: Longer ones have two stages, so that neighbouring work-items read neighbouring points.
_LONGEST_ALONE = 5
#: Points that a work-item may have in registers.
_MOST_POINTS = 40
#: Work-items that a group should have, and those that are executed together on most devices.
_GROUP, _TOGETHER = 128, 32
#: The same where neighbouring work-items have neighbouring rows, which a line of memory holds.
_GROUP_ACROSS, _ROWS_ACROSS = 256, 16
#: Elements in a row of local memory's banks, of two floats each.
_BANKS = 16


@dataclass(frozen=True, slots=True)
class Stage:
    """``butterflies`` of ``radix`` points, ``each`` of them (rounded up) for every work-item.

    Butterfly ``b`` takes the points at ``b + q * butterflies``, and makes transforms of ``length``
    points to one of ``length * radix``: its results are ``length`` apart. The factors of its points
    are at ``table + (q - 1) * length + b % length`` for ``q`` from 1 on.
    """

    radix: int
    butterflies: int
    each: int
    length: int
    table: int


@dataclass(frozen=True, slots=True)
class StagePlan:
    """``items`` work-items a row, ``rows`` rows a group, ``pitch`` elements between rows in local
    memory; ``padded``: one element after each ``_BANKS`` is not used."""

    stages: tuple[Stage, ...]
    items: int
    rows: int
    pitch: int
    padded: bool

    @property
    def group(self) -> int:
        return self.items * self.rows


def stage_radices(n: int) -> tuple[int, ...]:
    """The radices of a transform of ``n`` points, the largest first; empty: ``n`` has a large prime
    factor. As few as there can be, and of these the most equal."""
    rest = n
    for prime in PRIMES:
        while rest % prime == 0:
            rest //= prime
    if rest > 1 or n < 2:
        return ()
    if n <= _LONGEST_ALONE or n in PRIMES:
        return (n,)
    return _radices(n)


@cache
def _radices(n: int) -> tuple[int, ...]:
    for count in range(2, 32):
        found = [tuple(f) for f in _products(n, count, MOST_RADIX)]
        if found:
            return min(found, key=lambda f: (sum(f), f))
    return ()


def _products(n: int, count: int, most: int) -> Iterator[list[int]]:
    """Lists of ``count`` factors of ``n`` from 2 to ``most``, the largest first."""
    if count == 0:
        if n == 1:
            yield []
        return
    for factor in range(min(n, most), 1, -1):
        if n % factor == 0 and factor**count >= n:
            for rest in _products(n // factor, count - 1, factor):
                yield [factor, *rest]


def _stages(n: int, radices: tuple[int, ...], items: int) -> tuple[Stage, ...]:
    stages, length, table = [], 1, 0
    for radix in radices:
        butterflies = n // radix
        stages.append(Stage(radix, butterflies, -(-butterflies // items), length, table))
        if length > 1:
            table += (radix - 1) * length
        length *= radix
    return tuple(stages)


def plan(device: DeviceInfo, n: int, element: int, across: bool) -> StagePlan | str:
    """A plan for ``n`` points of ``element`` bytes, or why there is none.

    ``across``: neighbouring work-items read or write neighbouring rows.
    """
    radices = stage_radices(n)
    if not radices:
        return f"{n} points have a prime factor over {PRIMES[-1]}" if n > 1 else "one point"
    # Without it, items that write first results of theirs would meet in a few of the banks.
    padded = len(radices) > 1 and radices[0] % 4 == 0
    pitch = (local_index(n - 1, padded) + 1) | 1 if len(radices) > 1 else 0
    butterflies = n // radices[0]
    items = -(-butterflies // -(-butterflies // device.max_work_group_size))
    stages = _stages(n, radices, items)
    if max(s.each * s.radix for s in stages) > _MOST_POINTS:
        return f"{n} points are too many for {device.max_work_group_size} work-items"
    if pitch * element > device.local_mem_bytes:
        return f"{n} points need {pitch * element} bytes of local memory"
    return StagePlan(stages, items, _rows(device, items, pitch * element, across), pitch, padded)


def _rows(device: DeviceInfo, items: int, row_bytes: int, across: bool) -> int:
    """Rows of a group: as many as make it large, without items that are executed in vain."""
    wanted = _GROUP_ACROSS if across else _GROUP
    most = max(1, min(wanted, device.max_work_group_size) // items)
    if row_bytes:
        # Two groups should fit, so that one computes while the other waits for memory.
        usable = device.local_mem_bytes if across else device.local_mem_bytes // 2
        most = max(1, min(most, usable // row_bytes))
    if across:
        # A power of two, so that groups share no line of memory.
        return 1 << (min(most, max(_ROWS_ACROSS, _GROUP // items)).bit_length() - 1)

    def in_use(rows: int) -> float:
        group = rows * items
        return group / (-(-group // _TOGETHER) * _TOGETHER)

    return max(range(1, most + 1), key=lambda rows: (rows * items >= 64, in_use(rows), rows))


def local_index(point: int, padded: bool) -> int:
    """Where a point of a row is in local memory."""
    return point + point // _BANKS if padded else point


def local_steps(bases: list[int], step: int, count: int, padded: bool) -> list[int] | None:
    """How far the points ``base + q * step`` are from ``base`` in local memory, for ``q`` below
    ``count``; None where it depends on ``base``."""
    found: list[int] = []
    for q in range(count):
        gaps = {local_index(b + q * step, padded) - local_index(b, padded) for b in bases}
        if len(gaps) > 1:
            return None
        found += gaps
    return found


def operations(n: int) -> int:
    """What a transform is said to take."""
    return int(5 * n * math.log2(n)) if n > 1 else 0
