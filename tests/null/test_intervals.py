"""Sets of time, against sets of whole nanoseconds."""

from __future__ import annotations

import random

import pytest

from ocl_inductor.observe.profiler.intervals import Interval, clip, length, subtract, union


def some(generator: random.Random) -> list[Interval]:
    starts = [generator.randrange(60) for _ in range(generator.randrange(8))]
    return [(s, s + generator.randrange(12)) for s in starts]


def points(pairs: list[Interval]) -> set[int]:
    return {n for start, end in pairs for n in range(start, end)}


@pytest.mark.parametrize("seed", range(50))
def test_against_sets(seed: int) -> None:
    generator = random.Random(seed)
    a, b = some(generator), some(generator)
    low, high = sorted(generator.sample(range(60), 2))
    assert points(union(a)) == points(a)
    assert length(union(a)) == len(points(a))
    assert points(subtract(union(a), union(b))) == points(a) - points(b)
    assert length(subtract(union(a), union(b))) == len(points(a) - points(b))
    assert points(clip(a, low, high)) == {n for n in points(a) if low <= n < high}


def test_pairs_that_touch_are_one() -> None:
    assert union([(3, 5), (0, 3), (9, 9)]) == [(0, 5)]
