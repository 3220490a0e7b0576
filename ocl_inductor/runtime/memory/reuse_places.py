"""The places of a plan's results and scratch memory in a block of saved tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ocl_inductor.plan.arena import Lifetime, aligned, place_within
from ocl_inductor.plan.plan import Launch, Plan
from ocl_inductor.runtime.memory.block import MIN_PART_BYTES, bytes_in_block
from ocl_inductor.runtime.plan_index import PlanIndex

#: Results keep their block alive, so they should fill at least this share of it.
_LEAST_FILLED = 0.25

#: Smaller slots cost time to place and save nothing.
_MIN_SLOT_BYTES = 4096

T = TypeVar("T")

#: The first and the last step that touches a piece of memory.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Places:
    """Offsets, of results by name and of scratch slots by number; ``nbytes`` of all together."""

    results: Mapping[str, int]
    slots: Mapping[int, int]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Occupied:
    """A part of a block, and the positions of the inputs that lie there."""

    inputs: Sequence[int]
    offset: int
    nbytes: int


def places_in_block(
    plan: Plan, plan_index: PlanIndex, nbytes: int, saved: Sequence[Occupied], with_results: bool
) -> Places:
    """Places for the plan's results and scratch memory in the ``nbytes`` of its saved inputs.

    Offsets and sizes of ``saved`` are multiples of ``arena.ALIGNMENT``. A result is live from the
    first step that touches it on; a saved input until the last one, or for ever where it is a
    result as well. Large ones are placed first. No results if they would fill little of the block.
    """
    spans = _spans(plan, plan_index)
    end = len(plan.steps)
    returned = {plan_index.root(o.name) for o in plan.outputs}

    def last_use(part: Occupied) -> int:
        names = [plan.inputs[n].name for n in part.inputs]
        if not returned.isdisjoint(names):
            return end
        return max(spans.get(name, (-1, -1))[1] for name in names)

    fixed = [(Lifetime(-1, last_use(part), part.nbytes), part.offset) for part in saved]
    results = [
        b for b in plan_index.outputs if b.name in spans and bytes_in_block(b) >= MIN_PART_BYTES
    ]
    results.sort(key=bytes_in_block, reverse=True)
    lives = [Lifetime(spans[b.name][0], end, bytes_in_block(b)) for b in results]
    filled = sum(x.nbytes for x, _ in _found(lives, place_within(nbytes, fixed, lives)))
    if not with_results or filled < _LEAST_FILLED * nbytes:
        results, lives = [], []
    slots = _slot_lives(plan, plan_index, spans)
    numbers = sorted(slots, key=lambda n: slots[n].nbytes, reverse=True)
    lives += [slots[n] for n in numbers]
    offsets = place_within(nbytes, fixed, lives)
    return Places(
        {b.name: at for b, at in _found(results, offsets)},
        dict(_found(numbers, offsets[len(results) :])),
        sum(x.nbytes for x, _ in _found(lives, offsets)),
    )


def _spans(plan: Plan, plan_index: PlanIndex) -> dict[str, Span]:
    spans: dict[str, Span] = {}
    for n, step in enumerate(plan.steps):
        if not isinstance(step, Launch):
            continue  # a draw (fast_path.py), whose result is too small to be placed
        for name in map(plan_index.root, step.buffers):
            spans[name] = spans.get(name, (n, n))[0], n
    return spans


def _slot_lives(
    plan: Plan, plan_index: PlanIndex, spans: Mapping[str, Span]
) -> dict[int, Lifetime]:
    """For each large slot in use: the first and the last step of all its buffers."""
    lives = {}
    for n, names in plan_index.in_slot.items():
        own, nbytes = [spans[x] for x in names if x in spans], int(plan.slots[n].nbytes)
        if own and nbytes >= _MIN_SLOT_BYTES:
            first, last = min(a for a, _ in own), max(b for _, b in own)
            lives[n] = Lifetime(first, last, aligned(nbytes))
    return lives


def _found(pieces: Sequence[T], offsets: Sequence[int | None]) -> list[tuple[T, int]]:
    return [(x, at) for x, at in zip(pieces, offsets, strict=False) if at is not None]
