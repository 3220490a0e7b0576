"""Scratch memory: arenas that the plans of a device take for the duration of a call.

Nothing in scratch memory outlives a call, so plans that never run at the same time share one
arena, which has the size of the largest. Plans that do run at the same time, in several threads,
get an arena each. Idle arenas are freed when memory is short, and at ``torch.compiler.reset()``.
"""

from __future__ import annotations

import copy
import itertools
import threading
import weakref
from collections.abc import Callable, Collection, Sequence

import torch

from ocl_inductor.device.device import Device
from ocl_inductor.device.driver.handles import ClMemory
from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.plan.arena import Layout, Lifetime, Place, Rules
from ocl_inductor.plan.plan import Plan, Slot
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.memory.strategy import Allocation, Strategy
from ocl_inductor.runtime.pressure import frees, with_room
from ocl_inductor.runtime.sizes import Sizes

_versions = itertools.count()


class Arena:
    """Allocations used by one running plan at a time, and the plans' windows onto them.

    ``version`` changes whenever a window becomes invalid. Plans hold no window themselves, so that
    replaced memory is freed at once.
    """

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.windows: dict[tuple[int, int, int], ClMemory] = {}
        self.version = next(_versions)

    def __del__(self) -> None:
        self._close()  # a dictionary's destructor would free its oldest value first

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.allocations)

    def reserve(self, needs: Sequence[int], memory: Strategy) -> None:
        """Ensure at least these bytes in each allocation.

        Raises:
            DeviceMemoryError: not possible even after everything idle was freed.
        """
        have = [a.nbytes for a in self.allocations]
        if len(have) >= len(needs) and all(a >= b for a, b in zip(have, needs)):
            return
        wanted = [max(a, b) for a, b in itertools.zip_longest(have, needs, fillvalue=0)]
        self.free()  # before allocating the new ones: their contents are not needed
        try:
            for nbytes in wanted:
                self.allocations.append(with_room(lambda n=nbytes: memory.allocate(n)))  # type: ignore[misc]
        except BaseException:
            self.free()
            raise

    def window(self, at: Place, nbytes: int, memory: Strategy) -> ClMemory:
        """The device buffer over some bytes of an allocation."""
        key = (at.arena, at.offset, nbytes)
        found = self.windows.get(key)
        if found is None:
            found = memory.window(self.allocations[at.arena], at.offset, nbytes)
            self.windows[key] = found
        return found

    def contains(self, pointer: int) -> bool:
        """Whether a host pointer points into it."""
        hosts = [(a.host.data_ptr(), a.nbytes) for a in self.allocations if a.host is not None]
        return any(start <= pointer < start + nbytes for start, nbytes in hosts)

    def free(self) -> None:
        """Free all of it; the plans' windows become invalid."""
        self._close()
        self.version = next(_versions)

    def _close(self) -> None:
        # Also at interpreter exit, when module globals are gone.
        # Newest first: NVIDIA's driver (580, OpenCL 3.0 CUDA) crashes in clReleaseMemObject when
        # the oldest sub-buffer of several is released first (15 of one buffer, on an H200).
        while self.windows:
            self.windows.popitem()
        self.allocations.clear()


class ScratchPool:
    """The arenas of one device and memory strategy."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: list[Arena] = []

    def take(self, preferred: Arena | None) -> Arena:
        """An arena for exclusive use until ``give``; the preferred one if it is idle."""
        with self.lock:
            if not self.idle:
                return Arena()
            # Usually the preferred one is the last that was returned.
            if self.idle[-1] is not preferred and preferred in self.idle:
                self.idle.remove(preferred)
                return preferred
            return self.idle.pop()

    def take_last(self, version: int) -> Arena | None:
        """The arena that was returned last, if it still has this version."""
        with self.lock:
            if self.idle and self.idle[-1].version == version:
                return self.idle.pop()
        return None

    def give(self, arena: Arena) -> None:
        with self.lock:
            self.idle.append(arena)

    def release(self) -> int:
        """Free every idle arena; the bytes that were freed."""
        with self.lock:
            idle, self.idle = self.idle, []
        freed = sum(arena.nbytes for arena in idle)
        for arena in idle:
            arena.free()
        return freed


_pools: weakref.WeakKeyDictionary[Device, dict[str, ScratchPool]] = weakref.WeakKeyDictionary()
_pools_lock = threading.Lock()


def pool_of(device: Device, memory: Strategy) -> ScratchPool:
    """The pool that all plans of a device with one kind of memory share."""
    with _pools_lock:
        return _pools.setdefault(device, {}).setdefault(type(memory).__name__, ScratchPool())


@frees
def release_arenas() -> int:
    """Free the scratch memory of all devices that no running plan uses; the bytes freed."""
    with _pools_lock:
        pools = [pool for kinds in _pools.values() for pool in kinds.values()]
    return sum(pool.release() for pool in pools)


class Scratch:
    """The scratch memory of one plan: its current arena, and the places of its slots there."""

    def __init__(self, plan: Plan, pool: ScratchPool, info: DeviceInfo) -> None:
        self.slots = plan.slots
        self.numbers: Sequence[int] = range(len(plan.slots))  # the plan's own numbers
        self.pool = pool
        self.rules = Rules.of(info)
        self.needs: list[int] = []
        self.layout: Layout | None = None
        self.exact = False  # whether the next layout leaves no room to grow
        self.static = bool(plan.arenas) or not plan.slots
        if self.static:
            self.needs = [int(s.nbytes) for s in plan.slots]
            places = tuple(Place(s.arena, s.offset) for s in plan.slots)
            self.layout = Layout(places, plan.arenas)
        self.arena: Callable[[], Arena | None] = lambda: None
        self.bound: tuple[int, Layout] | None = None

    def without(self, numbers: Collection[int]) -> Scratch:
        """The scratch memory of the same plan, of static sizes, without some slots, which are
        placed elsewhere.
        """
        rest = copy.copy(self)
        rest.numbers = [n for n in self.numbers if n not in numbers]
        rest.slots = tuple(self.slots[n] for n in rest.numbers)
        rest.needs = [int(s.nbytes) for s in rest.slots]
        aligned = self.rules.aligned
        rest.layout = self.rules.place(
            [Lifetime(s.first, s.last, aligned(int(s.nbytes))) for s in rest.slots]
        )
        rest.bound = None
        return rest

    def take(self) -> Arena | None:
        """An arena for one call, to be returned; None for a plan without scratch memory."""
        if not self.slots:
            return None
        preferred = self.arena()
        arena = self.pool.take(preferred)
        if arena is not preferred:
            self.arena = weakref.ref(arena)
        return arena

    def give(self, arena: Arena | None) -> None:
        if arena is not None:
            self.pool.give(arena)

    def forget(self) -> None:
        """After a call that did not fit: the next one is sized without regard to larger ones."""
        self.bound = None
        if not self.static:
            self.needs, self.layout, self.exact = [], None, True

    def bind(
        self, arena: Arena, sizes: Sizes, memory: Strategy, point: Callable[[int, object], None]
    ) -> None:
        """Make room, and ``point`` each slot's number to its buffer if that has changed."""
        if sizes.dynamic:
            self._place(sizes)
        layout = self.layout
        assert layout is not None
        if self.bound is not None and self.bound[0] == arena.version and self.bound[1] is layout:
            return
        arena.reserve(layout.arenas, memory)
        self.bound = None
        for number, at, nbytes in zip(self.numbers, layout.places, self.needs, strict=True):
            point(number, self._window(arena, at, nbytes, memory))
        self.bound = (arena.version, layout)

    def buffer(
        self, arena: Arena, slot: int, memory: Strategy
    ) -> tuple[ClMemory, torch.Tensor | None]:
        """A slot's buffer, and its bytes where the host can read them in place."""
        assert self.layout is not None
        n = self.numbers.index(slot)
        at, nbytes = self.layout.places[n], self.needs[n]
        host = arena.allocations[at.arena].host_part(at.offset, nbytes)
        return self._window(arena, at, nbytes, memory), host

    def _window(self, arena: Arena, at: Place, nbytes: int, memory: Strategy) -> ClMemory:
        """The buffer of a block: a part of an allocation, or all of it for ``Rules.separate``."""
        whole = arena.allocations[at.arena].nbytes
        return arena.window(at, whole if self.rules.separate else nbytes, memory)

    def _place(self, sizes: Sizes) -> None:
        """A new layout when a slot has outgrown the current one.

        Sizes are rounded up by at most an eighth, so that sizes that grow step by step, as in
        decoding, do not move everything at each step.
        """
        exact = [sizes(s.nbytes) for s in self.slots]
        if self.layout is not None and all(a <= b for a, b in zip(exact, self.needs, strict=True)):
            return
        before = self.needs or [0] * len(exact)
        needs = [
            have if n <= have else self.rules.aligned(n if self.exact else _roomy(n, s))
            for n, have, s in zip(exact, before, self.slots, strict=True)
        ]
        lifetimes = [Lifetime(s.first, s.last, n) for s, n in zip(self.slots, needs, strict=True)]
        self.needs, self.layout = needs, self.rules.place(lifetimes)
        self.exact = False
        count("layouts")


def _roomy(nbytes: int, slot: Slot) -> int:
    if isinstance(slot.nbytes, int):
        return nbytes
    unit = 1 << max(0, nbytes.bit_length() - 4)
    return -(-nbytes // unit) * unit
