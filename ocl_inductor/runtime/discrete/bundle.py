"""Small tensors of a plan, packed into one buffer of the device, to be transferred together.

Starting a transfer takes some 20 µs and waiting for one as long, for a byte as for 64 KiB, and a
training step has hundreds of small parameters, running statistics and gradients. Those of a plan
with static sizes are uploaded in one transfer and downloaded in one, or in one for each contiguous
run of members to transfer.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ocl_inductor.device import fork
from ocl_inductor.device.driver.handles import ClMemory
from ocl_inductor.patches.process.process_hooks import at_exit
from ocl_inductor.plan.plan import BufferSpec, InputSpec, Launch, Plan
from ocl_inductor.runtime.discrete.pinned import CHUNK_BYTES
from ocl_inductor.runtime.memory.strategy import Allocation, Strategy
from ocl_inductor.runtime.plan_index import PlanIndex
from ocl_inductor.runtime.pressure import frees

#: Copying this many bytes to and from pinned memory takes about as long as starting a transfer.
MEMBER_BYTES = 128 << 10
#: Most sets of members to remember.
_MOST_KNOWN = 16


@dataclass(frozen=True, slots=True)
class Run:
    """Contiguous members: bytes ``start`` to ``end`` of the buffer, and the members' places."""

    start: int
    end: int
    members: tuple[tuple[str, int], ...]

    @property
    def nbytes(self) -> int:
        return self.end - self.start


def members_of(plan: Plan, plan_index: PlanIndex) -> list[tuple[str, int]]:
    """The small inputs and results of a plan that cross the bus, with their bytes, ordered so that
    those transferred at the same time are contiguous; none where nothing would be combined.
    """
    if plan.symbols:
        return []
    launches = (s for s in (*plan.prologue, *plan.steps) if isinstance(s, Launch))
    used = {plan_index.root(name) for step in launches for name in step.buffers}
    inputs = [s for s in plan.inputs if s.kind == "tensor" and s.name in used and _is_small(s)]
    # Parameters, which may stay, then what is always uploaded, and at last what is downloaded too.
    written, filled = plan_index.overwritten, {name for name, _ in plan.updates}
    inputs.sort(key=lambda s: (s.name in written, s.name in filled, not s.static))
    home = [s for s in plan_index.outputs if s.name not in plan_index.saved and _is_small(s)]
    returning = len(home) + sum(s.name in plan_index.overwritten for s in inputs)
    if len(inputs) < 2 and returning < 2:
        return []
    specs: list[InputSpec | BufferSpec] = [*inputs, *home]
    return [(s.name, _nbytes(s)) for s in specs]


class Bundle:
    """One buffer, and the windows onto it that stand for its members."""

    def __init__(self, members: Sequence[tuple[str, int]], alignment: int) -> None:
        self.alignment = alignment
        #: For each member: its number, start and end.
        self.places: dict[str, tuple[int, int, int]] = {}
        self.nbytes = 0
        for number, (name, nbytes) in enumerate(members):
            self.places[name] = (number, self.nbytes, self.nbytes + nbytes)
            self.nbytes += -(-nbytes // alignment) * alignment
        self.allocation: Allocation | None = None
        #: Runs by members: most calls transfer the same ones.
        self._known: dict[tuple[str, ...], list[Run]] = {}

    @property
    def buffer(self) -> ClMemory:
        """The whole buffer."""
        assert self.allocation is not None
        return self.allocation.buffer

    def make(self, memory: Strategy) -> dict[str, tuple[int, ClMemory]]:
        """Allocate the buffer; for each member, its bytes and its window.

        Raises:
            DeviceMemoryError: there is not enough memory.
        """
        _free_retired()
        allocation = self.allocation = memory.allocate(self.nbytes)
        windows = {
            name: (end - start, memory.window(allocation, start, end - start))
            for name, (_, start, end) in self.places.items()
        }
        _free_after(memory, [window for _, window in windows.values()])
        return windows

    def runs(self, names: Iterable[str]) -> list[Run]:
        """These members by their places, in runs that fit in a chunk each."""
        wanted = tuple(names)
        found = self._known.get(wanted)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[wanted] = self._runs(wanted)
        return found

    def _runs(self, names: Iterable[str]) -> list[Run]:
        found: list[Run] = []
        last = -1
        for (number, start, end), name in sorted((self.places[n], n) for n in names):
            run = found[-1] if found else None
            if run is not None and number == last + 1 and end - run.start <= CHUNK_BYTES:
                found[-1] = Run(run.start, end, (*run.members, (name, start - run.start)))
            else:
                found.append(Run(start, end, ((name, 0),)))
            last = number
        return found


#: The windows of live plans, and of plans that were freed; the oldest of each plan first.
_live: dict[int, list[ClMemory]] = {}
_retired: list[list[ClMemory]] = []


def _free_after(owner: object, windows: list[object]) -> None:
    """Free ``windows``, created in this order, some time after ``owner`` and all other users.

    Not at once: the newest has to be freed first, and there may be other references.
    """
    _live[id(windows)] = windows
    weakref.finalize(owner, _retire, id(windows)).atexit = False


def _retire(windows: int) -> None:
    _retired.append(_live.pop(windows))


@at_exit
def _leave_to_the_system() -> None:
    """At exit a process frees nothing itself: the order of destruction is unspecified then."""
    for windows in _live.values():
        for window in windows:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(window))


@frees
def _free_retired() -> int:
    if fork.forked:  # the driver is unusable in a forked child
        return 0
    # Newest first: NVIDIA's driver (580, OpenCL 3.0 CUDA) crashes in clReleaseMemObject when the
    # oldest sub-buffer of several is released first.
    while _retired:
        windows = _retired.pop()
        while windows:
            windows.pop()
    return 0


def _nbytes(spec: InputSpec | BufferSpec) -> int:
    assert spec.dtype is not None
    return int(spec.extent) * spec.dtype.itemsize


def _is_small(spec: InputSpec | BufferSpec) -> bool:
    return 0 < _nbytes(spec) <= MEMBER_BYTES
