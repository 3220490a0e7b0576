"""Results and scratch memory of a backward plan in the memory of its saved inputs.

A forward plan saves activations contiguously in a block (``saved_memory.py``). While the backward
plan runs they die one after the other, and later results reuse their memory, so that both never
need memory at the same time. Only in calls after which the saved tensors are unreachable: not
with ``retain_graph``, nor where a hook has kept one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ocl_inductor.plan.plan import BufferSpec, Plan
from ocl_inductor.runtime.counters import count
from ocl_inductor.runtime.memory.argument import Argument, Uses
from ocl_inductor.runtime.memory.block import TensorBlock, block_around, block_at
from ocl_inductor.runtime.memory.recycling import Maker, users
from ocl_inductor.runtime.memory.reuse_places import Occupied, places_in_block
from ocl_inductor.runtime.memory.scratch import Scratch
from ocl_inductor.runtime.memory.strategy import UnifiedMemory
from ocl_inductor.runtime.plan_index import PlanIndex

#: Number of calls in which saved tensors are looked for.
_TRIES = 3


def reads_saved(plan: Plan) -> bool:
    """Whether inputs of the plan may be saved by another one: it is no forward plan, and has no
    parameters with fixed addresses."""
    tensors = [s for s in plan.inputs if s.kind == "tensor"]
    return plan.visible_outputs is None and bool(tensors) and not any(s.static for s in tensors)


@dataclass(frozen=True, slots=True)
class _Saved:
    """An input in the block: its offset there, that of its storage, which other inputs may share,
    and their reference counts while there are no other references (see ``_references``).
    """

    position: int
    offset: int
    storage: int
    references: tuple[int, ...]


class _Part:
    """Allocates a result in the block of the current call."""

    __slots__ = ("offset", "reuse", "spec")

    def __init__(self, reuse: Reuse, offset: int, spec: BufferSpec) -> None:
        self.reuse, self.offset, self.spec = reuse, offset, spec

    def make(self) -> torch.Tensor:
        block = self.reuse.block
        assert block is not None
        block.has_results = True
        return block.tensor(self.offset, self.spec)


@dataclass(frozen=True, slots=True)
class _Layout:
    """``makers`` of the results that lie in the block, the offset of each scratch slot there with
    the kernel arguments that point to it, and the scratch memory that remains.
    """

    makers: Mapping[str, Maker]
    slots: tuple[tuple[int, Argument], ...]
    scratch: Scratch
    nbytes: int


class Reuse:
    """The layouts of one plan's calls. Serves the same plans as ``fast_path.serves``."""

    def __init__(
        self,
        plan: Plan,
        plan_index: PlanIndex,
        memory: UnifiedMemory,
        uses: Mapping[str, Uses],
        scratch: Scratch,
    ) -> None:
        self.plan, self.plan_index, self.memory, self.uses = plan, plan_index, memory, uses
        self._all_scratch = scratch
        self.block: TensorBlock | None = None  # of the current call
        self.layout: _Layout | None = None
        self._saved: tuple[_Saved, ...] = ()
        self._layouts: dict[bool, _Layout] = {}
        self._tries = _TRIES

    def begin(self, inputs: Sequence[object]) -> bool:
        """Choose the layout of this call; whether it differs from the last one.

        ``inputs`` must hold the only references to the saved tensors.
        """
        self.block = block = self._block(inputs)
        before, self.layout = self.layout, None
        if block is not None:
            if block.takes_results not in self._layouts:
                self._layouts[block.takes_results] = self._placed(block)
            self.layout = self._layouts[block.takes_results]
        if self.layout is None:
            return before is not None
        assert block is not None
        changed = self.layout is not before
        for offset, argument in self.layout.slots:
            pointer = block.pointer + offset
            if changed or pointer != argument.pointer:
                argument.bind(pointer, self.memory)
        count("bytes_in_saved_memory", self.layout.nbytes)
        return changed

    def end(self) -> None:
        """The call is over; only its tensors keep the block alive."""
        self.block = None

    def forget(self) -> None:
        """After an error: the addresses bound to kernels are unknown."""
        self.layout = None

    @property
    def scratch(self) -> Scratch:
        """The scratch memory of this call that is not in the block."""
        return self._all_scratch if self.layout is None else self.layout.scratch

    @property
    def makers(self) -> Mapping[str, Maker]:
        """The makers of the results in the block."""
        return {} if self.layout is None else self.layout.makers

    # -- the block of a call ---------------------------------------------------------------

    def _block(self, inputs: Sequence[Any]) -> TensorBlock | None:
        """The block of the saved inputs if there are no other references into it."""
        if not self._saved:
            if not self._tries:
                return None
            self._tries -= 1
            self._saved = _saved_inputs(self.plan, inputs)
            if not self._saved:
                return None
        first = self._saved[0]
        start = inputs[first.position].data_ptr() - first.offset
        block = block_at(start)
        if block is None or block.tensors() != len({s.storage for s in self._saved}):
            return None
        for saved in self._saved:
            if inputs[saved.position].data_ptr() != start + saved.offset:
                return None
            if _references(inputs, saved.position) != saved.references:
                return None
        return block

    def _placed(self, block: TensorBlock) -> _Layout:
        starts = sorted({s.storage for s in self._saved})
        saved = [
            Occupied([s.position for s in self._saved if s.storage == start], start, end - start)
            for start, end in zip(starts, [*starts[1:], block.nbytes], strict=True)
        ]
        places = places_in_block(
            self.plan, self.plan_index, block.nbytes, saved, block.takes_results
        )
        outputs = {b.name: b for b in self.plan_index.outputs}
        return _Layout(
            {name: _Part(self, at, outputs[name]) for name, at in places.results.items()},
            tuple((at, self._argument(n)) for n, at in places.slots.items()),
            self._all_scratch.without(places.slots),
            places.nbytes,
        )

    def _argument(self, slot: int) -> Argument:
        uses = [use for name in self.plan_index.in_slot[slot] for use in self.uses.get(name, ())]
        return Argument(int(self.plan.slots[slot].nbytes), uses)


def _saved_inputs(plan: Plan, inputs: Sequence[Any]) -> tuple[_Saved, ...]:
    """The inputs that lie in a block, all in the same one."""
    found: list[tuple[int, int, int]] = []
    block = None
    for position, (spec, x) in enumerate(zip(plan.inputs, inputs, strict=True)):
        if spec.kind != "tensor":
            continue
        pointer = x.data_ptr()
        block = block or block_around(pointer)
        if block is not None and block.pointer <= pointer < block.pointer + block.nbytes:
            storage = x.untyped_storage().data_ptr() - block.pointer
            found.append((position, pointer - block.pointer, storage))
    sharing = Counter(storage for *_, storage in found)
    return tuple(_Saved(*x, (*_ALONE[:-1], _ALONE[-1] - 1 + sharing[x[-1]])) for x in found)


def _references(inputs: Sequence[Any], position: int) -> tuple[int, ...]:
    """Reference counts of a tensor and its storage, in Python and in C++."""
    x = inputs[position]
    storage = x.untyped_storage()
    return (
        sys.getrefcount(x),
        x._use_count(),
        sys.getrefcount(storage),
        users(storage._cdata),
    )


#: The counts of a tensor whose only reference is a list, with an unshared storage.
_ALONE = _references([torch.empty(1, device="cpu")], 0)
