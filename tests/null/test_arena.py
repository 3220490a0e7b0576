"""Layouts of scratch memory: blocks alive together never overlap, and little is wasted."""

from __future__ import annotations

import random

import pytest

from ocl_inductor.plan.arena import (
    ALIGNMENT,
    Layout,
    Lifetime,
    Place,
    aligned,
    lower_bound,
    place,
    place_separately,
    place_within,
)


def check(lifetimes: list[Lifetime], layout: Layout, most_bytes: int | None = None) -> None:
    for n, (own, at) in enumerate(zip(lifetimes, layout.places, strict=True)):
        assert at.offset % ALIGNMENT == 0
        assert 0 <= at.offset and at.offset + own.nbytes <= layout.arenas[at.arena]
        for other, there in zip(lifetimes[:n], layout.places, strict=False):
            apart = (
                at.offset + own.nbytes <= there.offset or there.offset + other.nbytes <= at.offset
            )
            assert apart or at.arena != there.arena or not own.meets(other)
    if most_bytes is not None:
        largest = max(x.nbytes for x in lifetimes)
        assert all(n <= max(most_bytes, largest) for n in layout.arenas)


def some(seed: int, count: int, steps: int) -> list[Lifetime]:
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        first = draw.randrange(steps)
        last = min(steps - 1, first + int(draw.expovariate(0.3)))
        found.append(Lifetime(first, last, aligned(int(draw.lognormvariate(8, 2)))))
    return found


def by_hand(lifetimes: list[Lifetime]) -> int:
    steps = range(max(x.last for x in lifetimes) + 1)
    return max(sum(x.nbytes for x in lifetimes if x.first <= t <= x.last) for t in steps)


@pytest.mark.parametrize("seed", range(30))
def test_blocks_alive_together_are_apart(seed: int) -> None:
    lifetimes = some(seed, 1 + 2 * seed, 1 + seed)
    layout = place(lifetimes)
    check(lifetimes, layout)
    assert lower_bound(lifetimes) == by_hand(lifetimes)
    assert lower_bound(lifetimes) <= layout.nbytes <= 1.2 * lower_bound(lifetimes)


@pytest.mark.parametrize("seed", range(10))
def test_no_arena_is_larger_than_the_device_allows(seed: int) -> None:
    lifetimes = some(seed, 60, 20)
    most = place(lifetimes).nbytes // 3
    layout = place(lifetimes, most)
    check(lifetimes, layout, most)
    assert len(layout.arenas) > 1


@pytest.mark.parametrize("seed", range(20))
def test_blocks_find_room_among_others(seed: int) -> None:
    there, more = some(seed, 30, 20), some(seed + 100, 30, 20)
    before = place(there)
    fixed = [(x, at.offset) for x, at in zip(there, before.places, strict=True)]
    offsets = place_within(before.nbytes, fixed, more)
    placed = [(x, at) for x, at in zip(more, offsets, strict=True) if at is not None]
    assert placed
    whole = fixed + placed
    check([x for x, _ in whole], Layout(tuple(Place(0, at) for _, at in whole), before.arenas))


def test_blocks_that_find_no_room() -> None:
    fixed = [(Lifetime(0, 3, 256), 128)]
    wanted = [Lifetime(3, 4, 256), Lifetime(4, 5, 384), Lifetime(0, 3, 128), Lifetime(4, 4, 128)]
    assert place_within(384, fixed, wanted) == [None, 0, 0, None]


def test_blocks_one_after_the_other_share() -> None:
    chain = [Lifetime(n, n + 1, 256) for n in range(10)]
    assert place(chain).nbytes == lower_bound(chain) == 512


def test_nothing_to_place() -> None:
    assert place([]) == Layout((), ())
    assert lower_bound([]) == 0
    assert aligned(0) == ALIGNMENT


@pytest.mark.parametrize("seed", range(20))
def test_blocks_in_allocations_of_their_own(seed: int) -> None:
    """None shares an allocation with one that it meets, and the largest of each says how long."""
    lifetimes = some(seed, 40, 30)
    layout = place_separately(lifetimes)
    check(lifetimes, layout)
    assert {p.offset for p in layout.places} == {0}
    largest = [0] * len(layout.arenas)
    for x, at in zip(lifetimes, layout.places, strict=True):
        largest[at.arena] = max(largest[at.arena], x.nbytes)
    assert tuple(largest) == layout.arenas
    assert lower_bound(lifetimes) <= layout.nbytes <= sum(x.nbytes for x in lifetimes)


def test_a_chain_needs_two_allocations() -> None:
    lifetimes = [Lifetime(n, n + 1, ALIGNMENT * (10 - n)) for n in range(10)]
    assert place_separately(lifetimes).arenas == (10 * ALIGNMENT, 9 * ALIGNMENT)
    assert place_separately([]) == Layout((), ())
