"""Placement of scratch memory: offsets such that blocks live at the same time never overlap.

The compiler plans static sizes with it; the runtime uses the same functions for sizes that are
only known at a call.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo

#: Bytes that offsets are multiples of: two cache lines, and more than any vector.
ALIGNMENT = 128

#: Attempts to improve a layout that is above the lower bound, fewer where there are many blocks:
#: the work of an attempt grows with the square of their number.
MAX_REPAIRS = 400
MOST_WORK = 1_000_000


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A block of ``nbytes`` that is needed from step ``first`` to step ``last``, both included."""

    first: int
    last: int
    nbytes: int

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Place:
    """Number of an arena, and the offset in it in bytes."""

    arena: int
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of each block, and the bytes of each arena."""

    places: tuple[Place, ...]
    arenas: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(self.arenas)


@dataclass(frozen=True, slots=True)
class Rules:
    """Constraints on the placement of blocks in a device's memory.

    ``alignment``: of offsets. ``most_bytes``: limit of one arena; None: any.
    ``separate``: each block is at the start of an arena.
    """

    alignment: int = ALIGNMENT
    most_bytes: int | None = None
    separate: bool = False

    @classmethod
    def of(cls, info: DeviceInfo) -> Rules:
        """In unified memory a block is an arbitrary window; otherwise it is a sub-buffer."""
        if info.unified_memory and info.zero_copy:
            return cls()
        alignment = max(ALIGNMENT, info.base_address_align_bytes)
        return cls(alignment, info.max_alloc_bytes, info.separate_scratch)

    def aligned(self, nbytes: int) -> int:
        return aligned(nbytes, self.alignment)

    def place(self, lifetimes: Sequence[Lifetime]) -> Layout:
        """A layout for blocks of aligned sizes."""
        return place_separately(lifetimes) if self.separate else place(lifetimes, self.most_bytes)


def aligned(nbytes: int, alignment: int = ALIGNMENT) -> int:
    """``nbytes`` rounded up to a multiple of the alignment, at least one."""
    return -(-max(nbytes, 1) // alignment) * alignment


def lower_bound(lifetimes: Sequence[Lifetime]) -> int:
    """Bytes of the largest set of blocks live at the same time: no layout needs less."""
    changes: list[tuple[int, int]] = []
    for x in lifetimes:
        changes += [(x.first, x.nbytes), (x.last + 1, -x.nbytes)]
    live = most = 0
    for _, change in sorted(changes):  # ends (negative) come before starts of the same step
        live += change
        most = max(most, live)
    return most


#: Orders in which blocks are placed. Each is best for some models, none for all.
_ORDERS: tuple[Callable[[Lifetime], tuple[int, ...]], ...] = (
    lambda x: (-x.nbytes, x.first),
    lambda x: (x.first - x.last, -x.nbytes),
    lambda x: ((x.first - x.last - 1) * x.nbytes, x.first),
    lambda x: (x.first, -x.nbytes),
    lambda x: (-x.last, -x.nbytes),
)


def place(lifetimes: Sequence[Lifetime], most_bytes: int | None = None) -> Layout:
    """A layout near the lower bound: greedy best fit in several orders, the smallest result.

    Sizes must be multiples of the alignment; offsets then are too. ``most_bytes``: what one arena
    may have; a larger block gets its own arena. While the result is above the lower bound, other
    orders are tried, beginning with the blocks that reach its end.
    """
    if not lifetimes:
        return Layout((), ())
    bound = lower_bound(lifetimes)
    best: Layout | None = None
    best_order: list[int] = []
    for key in _ORDERS:
        order = sorted(range(len(lifetimes)), key=lambda n: key(lifetimes[n]))
        layout = _place_in_order(lifetimes, order, most_bytes)
        if best is None or layout.nbytes < best.nbytes:
            best, best_order = layout, order
        if best.nbytes <= bound:
            return best
    assert best is not None
    # First the blocks at the end are moved to the front, repeatedly; then blocks swap positions.
    order, layout = best_order, best
    draw = random.Random(0)  # deterministic: equal plans in every process
    rounds = min(MAX_REPAIRS, MOST_WORK // len(lifetimes) ** 2)
    for n in range(rounds):
        if n < rounds // 4:
            high = {k for k, p in enumerate(layout.places) if _reaches_end(lifetimes[k], p, layout)}
            order = [k for k in order if k in high] + [k for k in order if k not in high]
        else:
            order = list(best_order)
            for _ in range(draw.randint(1, 3)):
                order.insert(draw.randrange(len(order)), order.pop(draw.randrange(len(order))))
        layout = _place_in_order(lifetimes, order, most_bytes)
        if layout.nbytes <= best.nbytes:
            best, best_order = layout, order
        if best.nbytes <= bound:
            break
    return best


def place_separately(lifetimes: Sequence[Lifetime]) -> Layout:
    """A layout with each block at the start of an allocation, shared by disjoint lifetimes.

    The largest first, each in the allocation with the longest idle time around its lifetime, which
    leaves room for others (greedy by size: Pisarchyk and Lee, "Efficient memory
    management for deep neural net inference", 2020).
    """
    places: list[Place] = [Place(0, 0)] * len(lifetimes)
    inside: list[list[Lifetime]] = []
    arenas: list[int] = []
    for n in sorted(range(len(lifetimes)), key=lambda n: (-lifetimes[n].nbytes, n)):
        own = lifetimes[n]
        free = [k for k, others in enumerate(inside) if not any(map(own.meets, others))]
        if free:
            arena = min(free, key=lambda k: (_idle(own, inside[k]), arenas[k]))
        else:
            arena = len(arenas)
            arenas.append(own.nbytes)
            inside.append([])
        places[n] = Place(arena, 0)
        inside[arena].append(own)
    return Layout(tuple(places), tuple(arenas))


def _idle(own: Lifetime, others: Sequence[Lifetime]) -> int:
    """Steps between a block's lifetime and the nearest of others, which are disjoint from it."""
    return min(max(own.first - x.last, x.first - own.last) for x in others)


def place_within(
    nbytes: int, fixed: Sequence[tuple[Lifetime, int]], lifetimes: Sequence[Lifetime]
) -> list[int | None]:
    """Offsets in an arena of ``nbytes`` with ``fixed`` blocks already placed; None: no room.

    Earlier ones of ``lifetimes`` are placed first; sizes must be multiples of the alignment.
    """
    known = [x for x, _ in fixed] + list(lifetimes)
    places = [Place(0, offset) for _, offset in fixed] + [Place(0, 0)] * len(lifetimes)
    inside = sorted(range(len(fixed)), key=lambda n: places[n].offset)
    found: list[int | None] = []
    for n, own in enumerate(lifetimes, len(fixed)):
        offset = _offset(own, known, places, inside)
        if offset + own.nbytes > nbytes:
            found.append(None)
            continue
        found.append(offset)
        places[n] = Place(0, offset)
        inside.append(n)
        inside.sort(key=lambda k: places[k].offset)
    return found


def _reaches_end(block: Lifetime, at: Place, layout: Layout) -> bool:
    return at.offset + block.nbytes == layout.arenas[at.arena]


def _place_in_order(
    lifetimes: Sequence[Lifetime], order: Sequence[int], most_bytes: int | None
) -> Layout:
    places: list[Place] = [Place(0, 0)] * len(lifetimes)
    placed: list[list[int]] = [[]]  # the blocks of each arena, by offset
    arenas = [0]
    for n in order:
        own = lifetimes[n]
        arena, offset = 0, 0
        while arena < len(placed):
            offset = _offset(own, lifetimes, places, placed[arena])
            if most_bytes is None or offset + own.nbytes <= most_bytes or not placed[arena]:
                break
            arena += 1
        else:
            offset = 0
            placed.append([])
            arenas.append(0)
        inside, end = placed[arena], offset + own.nbytes
        places[n] = Place(arena, offset)
        arenas[arena] = max(arenas[arena], end)
        at = next((i for i, k in enumerate(inside) if places[k].offset > offset), len(inside))
        inside.insert(at, n)
    return Layout(tuple(places), tuple(arenas))


def _offset(
    own: Lifetime, lifetimes: Sequence[Lifetime], places: Sequence[Place], inside: Sequence[int]
) -> int:
    """The smallest sufficient gap between blocks live with this one, else the end above them."""
    best, best_gap, top = -1, 0, 0
    for k in inside:
        other = lifetimes[k]
        if not own.meets(other):
            continue
        gap = places[k].offset - top
        if gap >= own.nbytes and (best < 0 or gap < best_gap):
            best, best_gap = top, gap
        top = max(top, places[k].offset + other.nbytes)
    return best if best >= 0 else top
